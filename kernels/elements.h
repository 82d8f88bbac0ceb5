#pragma once
// How the loops access elements: at any address, and by their bit patterns. This is in an unnamed namespace, as
// reduce_loops.h explains.
#include "base/dtype.h"
#include "base/inline.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace anello::kernels {
namespace {

// The type that is copied in place of a class: GCC vectorises only copies of integers.
template <std::size_t bytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = std::uint8_t;
};
template <>
struct BitsOf<2> {
  using type = std::uint16_t;
};
template <>
struct BitsOf<8> {
  using type = std::uint64_t;
};
template <>
struct BitsOf<16> {
  using type = struct { std::uint64_t low, high; };
};

template <class T>
struct Held {
  using type = T;
};
template <class T>
requires std::is_class_v<T>
struct Held<T> {
  using type = typename BitsOf<sizeof(T)>::type;
};

// An element at any address. It may alias anything.
template <class T>
class [[gnu::packed, gnu::may_alias]] Anywhere {
 public:
  [[gnu::always_inline]] T get() const { return __builtin_bit_cast(T, value_); }
  [[gnu::always_inline]] void set(T value) { value_ = __builtin_bit_cast(Value, value); }

 private:
  using Value = typename Held<T>::type;
  Value value_;
};
template <class T>
using Elements = Anywhere<T>*;
template <class T>
using ConstElements = const Anywhere<T>*;

template <std::size_t bytes>
struct SignedOf;
template <>
struct SignedOf<1> {
  using type = std::int8_t;
};
template <>
struct SignedOf<2> {
  using type = std::int16_t;
};
template <>
struct SignedOf<4> {
  using type = std::int32_t;
};
template <>
struct SignedOf<8> {
  using type = std::int64_t;
};

// Bit patterns of a floating-point type, by its storage.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr std::uint32_t infinity = 0x7f800000u, nan = 0x7fc00000u;
};
template <>
struct Format<double> {
  static constexpr std::uint64_t infinity = 0x7ff0000000000000u, nan = 0x7ff8000000000000u;
};
template <>
struct Format<Float16> {
  static constexpr std::uint16_t infinity = 0x7c00u, nan = 0x7e00u;
};
template <>
struct Format<BFloat16> {
  static constexpr std::uint16_t infinity = 0x7f80u, nan = 0x7fc0u;
};

template <>
struct Format<Float8E4M3> {
  static constexpr std::uint8_t infinity = 0x7eu, nan = 0x7fu;  // it has no infinity: NaN follows the greatest number
};
template <>
struct Format<Float8E5M2> {
  static constexpr std::uint8_t infinity = 0x7cu, nan = 0x7eu;
};

template <class T>
constexpr bool kFloating = requires {
  Format<T>::nan;
};

// Works on scalars and on GCC's vectors alike.
template <class V>
ANELLO_INLINE V canonical(V value) {
  if constexpr (std::is_floating_point_v<V>) {
    return value == value ? value : __builtin_bit_cast(V, Format<V>::nan);
  } else {
    const V nan = V{} + __builtin_bit_cast(float, Format<float>::nan);
    return value == value ? value : nan;
  }
}

}  // namespace
}  // namespace anello::kernels
