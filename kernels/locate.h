#pragma once
// Selects the lesser or greater of two pairs of value and index; among equal values, the lower index wins. A pair
// becomes one number with the same order, and NaN is at the winning end. This is in an unnamed namespace, as
// reduce_loops.h explains.
#include "kernels/select.h"

namespace anello::kernels {
namespace {

// Turns a value's bits, in the upper bits of a word, into a word with the order of the value. It is its own inverse.
template <class Value>
ANELLO_INLINE std::int64_t ordered(std::int64_t word) {
  constexpr std::uint64_t kMagnitude = (~std::uint64_t{0} >> 1) & (~std::uint64_t{0} << (64 - 8 * sizeof(Value)));
  if constexpr (std::is_floating_point_v<Value>) {
    return word < 0 ? word ^ static_cast<std::int64_t>(kMagnitude) : word;
  } else {
    return word;
  }
}

template <anello_op_t op, class Value>
ANELLO_INLINE std::int64_t key_of(std::int64_t word) {
  // Only NaNs are in this range, whatever their payload.
  constexpr std::uint64_t kFields = ~std::uint64_t{0} << (64 - 8 * sizeof(Value));
  constexpr auto kWinner =
      static_cast<std::int64_t>(op == ANELLO_MINLOC ? std::uint64_t{1} << 63 : (~std::uint64_t{0} >> 1) & kFields);
  const std::int64_t key = ordered<Value>(word);
  if constexpr (std::is_floating_point_v<Value>) {
    constexpr auto kInfinity =
        static_cast<std::int64_t>(std::uint64_t{Format<Value>::infinity} << (64 - 8 * sizeof(Value)));
    return (word & static_cast<std::int64_t>(~std::uint64_t{0} >> 1)) > kInfinity ? kWinner : key;
  } else {
    return key;
  }
}

template <class Value>
ANELLO_INLINE std::int64_t word_of(std::int64_t key) {
  const std::int64_t word = ordered<Value>(key);
  if constexpr (std::is_floating_point_v<Value>) {
    constexpr std::uint64_t kShift = 64 - 8 * sizeof(Value);
    constexpr auto kInfinity = static_cast<std::int64_t>(std::uint64_t{Format<Value>::infinity} << kShift);
    constexpr auto kNan = static_cast<std::int64_t>(std::uint64_t{Format<Value>::nan} << kShift);
    return (word & static_cast<std::int64_t>(~std::uint64_t{0} >> 1)) > kInfinity ? kNan : word;
  } else {
    return word;
  }
}

// A pair as bits: GCC vectorises a class of one integer, but not the pair itself.
template <class Value, std::size_t bytes>
struct Located;
template <class Value>
struct Located<Value, 8> {
  std::uint64_t bits;
};
template <class Value>
struct Located<Value, 16> {
  std::uint64_t value, index;
};

// The value is above and the index below, both transformed so that one comparison of signed words decides.
template <anello_op_t op, class Value>
ANELLO_INLINE Located<Value, 8> locate(Located<Value, 8> left, Located<Value, 8> right) {
  constexpr bool kLeast = op == ANELLO_MINLOC;
  constexpr std::uint64_t kTurned = kLeast ? 0x80000000u : 0x7fffffffu;
  constexpr auto kUpper = static_cast<std::int64_t>(~std::uint64_t{0} << 32);
  const auto l_key = key_of<op, Value>(static_cast<std::int64_t>(left.bits << 32)) |
                     static_cast<std::int64_t>((left.bits >> 32) ^ kTurned);
  const auto r_key = key_of<op, Value>(static_cast<std::int64_t>(right.bits << 32)) |
                     static_cast<std::int64_t>((right.bits >> 32) ^ kTurned);
  const std::int64_t chosen = extreme < kLeast ? ANELLO_MIN : ANELLO_MAX > (l_key, r_key);
  const auto value = static_cast<std::uint64_t>(word_of<Value>(chosen & kUpper)) >> 32;
  return {value | (static_cast<std::uint64_t>(chosen) ^ kTurned) << 32};
}

template <anello_op_t op, class Value>
ANELLO_INLINE Located<Value, 16> locate(Located<Value, 16> left, Located<Value, 16> right) {
  const auto l_key = key_of<op, Value>(static_cast<std::int64_t>(left.value));
  const auto r_key = key_of<op, Value>(static_cast<std::int64_t>(right.value));
  const auto l_index = static_cast<std::int32_t>(left.index), r_index = static_cast<std::int32_t>(right.index);
  // There is no branch: in random data it would be mispredicted.
  const bool wins = op == ANELLO_MINLOC ? l_key < r_key : l_key > r_key;
  const bool takes_left = wins | ((l_key == r_key) & (l_index < r_index));
  const std::int64_t chosen = takes_left ? l_key : r_key;
  const std::int32_t index = takes_left ? l_index : r_index;
  return {static_cast<std::uint64_t>(word_of<Value>(chosen)), static_cast<std::uint32_t>(index)};
}

}  // namespace
}  // namespace anello::kernels
