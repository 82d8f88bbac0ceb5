#pragma once
// The loops of every reduction, compiled once per instruction-set level by reduce_<level>.cpp. The compiler vectorises
// them; what it cannot (GCC 12: conversions of float16) a level brings as Pack<T>: kLanes elements of T at a time as
// one vector of float32.
//
// Everything here is in an unnamed namespace and calls nothing inline from outside but the forced-inline conversions:
// the linker keeps one copy of an ordinary inline function, and that could be the one for another processor.
#include "kernels/float16.h"
#include "kernels/reduce_levels.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace anello::kernels {
namespace {

// An element at any address, that may alias anything. Of the 16-bit floats it holds the bits: GCC does not vectorise
// the copy of a class.
template <class T>
class [[gnu::packed, gnu::may_alias]] Anywhere {
 public:
  [[gnu::always_inline]] T get() const { return __builtin_bit_cast(T, value_); }
  [[gnu::always_inline]] void set(T value) { value_ = __builtin_bit_cast(Value, value); }

 private:
  using Value = std::conditional_t<std::is_class_v<T>, std::uint16_t, T>;
  Value value_;
};
template <class T>
using Elements = Anywhere<T>*;
template <class T>
using ConstElements = const Anywhere<T>*;

template <std::size_t bytes>
struct SignedOf;
template <>
struct SignedOf<1> { using type = std::int8_t; };
template <>
struct SignedOf<2> { using type = std::int16_t; };
template <>
struct SignedOf<4> { using type = std::int32_t; };
template <>
struct SignedOf<8> { using type = std::int64_t; };

template <class T>
constexpr bool kFloating = std::is_floating_point_v<T> || std::is_class_v<T>;

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

// Works on scalars and on GCC's vectors alike.
template <class V>
[[gnu::always_inline]] inline V canonical(V value) {
  if constexpr (std::is_floating_point_v<V>) {
    return value == value ? value : __builtin_bit_cast(V, Format<V>::nan);
  } else {
    const V nan = V{} + __builtin_bit_cast(float, Format<float>::nan);
    return value == value ? value : nan;
  }
}

template <anello_op_t op, class Integer>
[[gnu::always_inline]] inline Integer extreme(Integer left, Integer right) {
  if constexpr (op == ANELLO_MIN) {
    return left < right ? left : right;
  } else {
    return left > right ? left : right;
  }
}

// MIN and MAX of floats by their bits: flipping the magnitude of negative numbers makes integer order of float order,
// with -0 just below +0.
template <anello_op_t op, class T>
[[gnu::always_inline]] inline T select(T left, T right) {
  if constexpr (kFloating<T>) {
    using Bits = typename SignedOf<sizeof(T)>::type;
    constexpr Bits kMagnitude = static_cast<Bits>(~(std::uint64_t{1} << (8 * sizeof(T) - 1)));
    constexpr Bits kInfinity = static_cast<Bits>(Format<T>::infinity);
    constexpr Bits kNan = static_cast<Bits>(Format<T>::nan);
    const Bits l = __builtin_bit_cast(Bits, left);
    const Bits r = __builtin_bit_cast(Bits, right);
    constexpr int kToSign = 8 * sizeof(T) - 1;
    const Bits left_key = static_cast<Bits>(l ^ ((l >> kToSign) & kMagnitude));
    const Bits right_key = static_cast<Bits>(r ^ ((r >> kToSign) & kMagnitude));
    const Bits key = extreme<op>(left_key, right_key);
    const Bits chosen = static_cast<Bits>(key ^ ((key >> kToSign) & kMagnitude));
    const Bits l_magnitude = static_cast<Bits>(l & kMagnitude);
    const Bits r_magnitude = static_cast<Bits>(r & kMagnitude);
    const Bits larger = extreme<ANELLO_MAX>(l_magnitude, r_magnitude);
    return __builtin_bit_cast(T, larger > kInfinity ? kNan : chosen);
  } else {
    return extreme<op>(left, right);
  }
}

// Operands of an accumulator type, or vectors of float32.
template <anello_op_t op, class A>
[[gnu::always_inline]] inline A combine(A left, A right) {
  if constexpr (op == ANELLO_MIN || op == ANELLO_MAX) {
    return select<op>(left, right);
  } else {
    static_assert(op == ANELLO_SUM || op == ANELLO_AVG || op == ANELLO_PROD, "a new operation says here what it does");
    constexpr bool multiplies = op == ANELLO_PROD;
    if constexpr (std::is_integral_v<A>) {
      // Unsigned and at least as wide as int: the product of two uint16 would overflow a signed int.
      using Wide = std::conditional_t<sizeof(A) == 8, std::uint64_t, std::uint32_t>;
      const Wide l = static_cast<Wide>(left), r = static_cast<Wide>(right);
      return static_cast<A>(multiplies ? l * r : l + r);
    } else {
      return canonical(multiplies ? left * right : left + right);
    }
  }
}

template <class A>
[[gnu::always_inline]] inline A divided(A sum, int ranks) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(sum / static_cast<std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>>(ranks));
  } else if constexpr (std::is_same_v<A, double>) {
    return canonical(sum / static_cast<double>(ranks));
  } else {
    return canonical(sum / static_cast<float>(ranks));
  }
}

// Between a type and its accumulator; from and to the type itself nothing happens.
template <class A, class T>
[[gnu::always_inline]] inline A widened(T value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T, class A>
[[gnu::always_inline]] inline T narrowed(A value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    T rounded;
    round_to(rounded, value);
    return rounded;
  }
}

// For the types that need none.
template <class T>
struct NoPack {
  static constexpr std::size_t kLanes = 0;
};

// wide(pack, i) for whole packs, then element(i) for the rest. The two give the same bits.
template <class Pack, class Wide, class Element>
[[gnu::always_inline]] inline void walk(std::size_t count, Wide wide, Element element) {
  std::size_t i = 0;
  if constexpr (Pack::kLanes != 0) {
    for (; count - i >= Pack::kLanes; i += Pack::kLanes) wide(Pack{}, i);
  }
  // Ranges are equal or disjoint: no iteration reads what another wrote.
#pragma GCC ivdep
  for (; i < count; ++i) element(i);
}

// Sums and products of bfloat16 two by two: each half of a 32-bit word becomes a float32 by a mask or a shift, and goes
// back so; taken one by one, GCC 12 spends most of the time on unpacking and packing.
template <anello_op_t op>
[[gnu::always_inline]] inline std::uint32_t combine_pair(std::uint32_t left, std::uint32_t right) {
  BFloat16 low, high;
  round_to(low, combine<op>(__builtin_bit_cast(float, left << 16), __builtin_bit_cast(float, right << 16)));
  round_to(high, combine<op>(__builtin_bit_cast(float, left & 0xffff0000u),
                             __builtin_bit_cast(float, right & 0xffff0000u)));
  return low.bits | std::uint32_t{high.bits} << 16;
}

template <class T>
void copy(void* into, const void* from, std::size_t count) {
  if (count != 0 && into != from) __builtin_memcpy(into, from, count * sizeof(T));
}

struct NoFloats {
  NoFloats() {}  // user-provided: else the compiler finds the variable unused
};

template <template <class> class PackOf, class T, class Accumulator, anello_op_t op>
struct Kernels {
  static constexpr bool kSelects = op == ANELLO_MIN || op == ANELLO_MAX;
  static constexpr bool kAccumulates = !kSelects && !std::is_same_v<T, Accumulator>;
  static constexpr bool kDivides = op == ANELLO_AVG;
  // In which sums are formed; to select, no wider type is needed.
  using A = std::conditional_t<kAccumulates, Accumulator, T>;
  using Pack = std::conditional_t<kAccumulates, PackOf<T>, NoPack<T>>;
  using Environment = std::conditional_t<kFloating<T> && !kSelects, DefaultFloats, NoFloats>;

  static void reduce(void* into, const void* left, const void* right, std::size_t count) {
    const Environment environment;
    const auto i = static_cast<Elements<T>>(into);
    const auto l = static_cast<ConstElements<T>>(left);
    const auto r = static_cast<ConstElements<T>>(right);
    if constexpr (kAccumulates && std::is_same_v<T, BFloat16>) {
      const auto pairs = static_cast<Elements<std::uint32_t>>(into);
      const auto left_pairs = static_cast<ConstElements<std::uint32_t>>(left);
      const auto right_pairs = static_cast<ConstElements<std::uint32_t>>(right);
      const std::size_t pair_count = count / 2;
#pragma GCC ivdep
      for (std::size_t k = 0; k < pair_count; ++k) {
        pairs[k].set(combine_pair<op>(left_pairs[k].get(), right_pairs[k].get()));
      }
      if (count % 2 == 0) return;
      const std::size_t last = count - 1;
      i[last].set(narrowed<T>(combine<op>(widened<A>(l[last].get()), widened<A>(r[last].get()))));
      return;
    }
    walk<Pack>(
        count, [=](auto pack, std::size_t k) { pack.store(i + k, combine<op>(pack.load(l + k), pack.load(r + k))); },
        [=](std::size_t k) {
          i[k].set(narrowed<T>(combine<op>(widened<A>(l[k].get()), widened<A>(r[k].get()))));
        });
  }

  static void widen(void* accumulator, const void* from, std::size_t count) {
    if constexpr (!kAccumulates) {
      copy<T>(accumulator, from, count);
    } else {
      const Environment environment;
      const auto a = static_cast<Elements<A>>(accumulator);
      const auto f = static_cast<ConstElements<T>>(from);
      walk<Pack>(
          count, [=](auto pack, std::size_t k) { pack.store_floats(a + k, pack.load(f + k)); },
          [=](std::size_t k) { a[k].set(widened<A>(f[k].get())); });
    }
  }

  static void accumulate(void* accumulator, const void* from, std::size_t count) {
    if constexpr (!kAccumulates) {
      reduce(accumulator, accumulator, from, count);
    } else {
      const Environment environment;
      const auto a = static_cast<Elements<A>>(accumulator);
      const auto f = static_cast<ConstElements<T>>(from);
      walk<Pack>(
          count,
          [=](auto pack, std::size_t k) {
            pack.store_floats(a + k, combine<op>(pack.load_floats(a + k), pack.load(f + k)));
          },
          [=](std::size_t k) { a[k].set(combine<op>(a[k].get(), widened<A>(f[k].get()))); });
    }
  }

  static void finish(void* into, const void* accumulator, std::size_t count, int ranks) {
    if constexpr (!kAccumulates && !kDivides) {
      copy<T>(into, accumulator, count);
    } else {
      const Environment environment;
      const auto i = static_cast<Elements<T>>(into);
      const auto a = static_cast<ConstElements<A>>(accumulator);
      walk<Pack>(
          count,
          [=](auto pack, std::size_t k) { pack.store(i + k, quotient(pack.load_floats(a + k), ranks)); },
          [=](std::size_t k) { i[k].set(narrowed<T>(quotient(a[k].get(), ranks))); });
    }
  }

  static void finish_in_type(void* into, const void* from, std::size_t count, int ranks) {
    if constexpr (!kDivides) {
      copy<T>(into, from, count);
    } else {
      const Environment environment;
      const auto i = static_cast<Elements<T>>(into);
      const auto f = static_cast<ConstElements<T>>(from);
      walk<Pack>(
          count, [=](auto pack, std::size_t k) { pack.store(i + k, quotient(pack.load(f + k), ranks)); },
          [=](std::size_t k) { i[k].set(narrowed<T>(quotient(widened<A>(f[k].get()), ranks))); });
    }
  }

  static constexpr Reducer reducer() {
    return {sizeof(T), sizeof(A), kAccumulates, kDivides, reduce, widen, accumulate, finish, finish_in_type};
  }

 private:
  template <class V>
  [[gnu::always_inline]] static V quotient(V value, int ranks) {
    if constexpr (kDivides) {
      return divided(value, ranks);
    } else {
      return value;
    }
  }
};

template <template <class> class PackOf, class T, class Accumulator>
constexpr void fill(Reducer (&row)[kOps]) {
#define ANELLO_OP(enumerator, name) row[enumerator] = Kernels<PackOf, T, Accumulator, enumerator>::reducer();
#include "base/ops.def"
#undef ANELLO_OP
}

template <template <class> class PackOf>
constexpr ReducerTable all_reducers() {
  ReducerTable table;
#define ANELLO_DTYPE(enumerator, name, storage, accumulator) \
  fill<PackOf, storage, accumulator>(table.rows[enumerator]);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  return table;
}

}  // namespace
}  // namespace anello::kernels
