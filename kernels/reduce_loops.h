#pragma once
// The loops of every reduction, compiled once per instruction-set level by reduce_<level>.cpp. The compiler vectorises
// them, except conversions of 16- and 8-bit floats (GCC 12). For those, a level has a Pack<T>: it handles kLanes
// elements of T at a time as one vector of float32, and the whole reduce if it has a faster one (Pack<T>::Pairs, with
// its own number of lanes).
//
// Everything here is in an unnamed namespace, and the only outside inline functions that it calls are the forced-inline
// conversions: the linker keeps one copy of an ordinary inline function, and that copy could be for another processor.
#include "kernels/combine.h"
#include "kernels/complex_loops.h"
#include "kernels/reduce_levels.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Before a loop none of whose iterations reads what another wrote. clang asks at run time instead, where it vectorises.
#if defined(__GNUC__) && !defined(__clang__)
#define ANELLO_NO_OVERLAP _Pragma("GCC ivdep")
#else
#define ANELLO_NO_OVERLAP
#endif

namespace anello::kernels {
namespace {

// For the types that need no Pack.
template <class T>
struct NoPack {
  static constexpr std::size_t kLanes = 0;
};

// A Pack's reduce that computes much calls it once per 64 bytes of an operand, because its instructions leave too
// little room in the processor's window for the misses of the next lines. A prefetch from farther ahead would be
// evicted before its use.
[[gnu::always_inline]] inline void prefetch(const void* operand) {
  __builtin_prefetch(static_cast<const char*>(operand) + 384);
}

// The part of each operand that reduce_all handles at a time: few lines, because one operand per rank competes for
// space.
constexpr std::size_t kTileBytes = 256;
// Far enough ahead to arrive in time, also across a page boundary, where the processor's own prefetching stops.
constexpr std::size_t kTilesAhead = 4;
[[gnu::always_inline]] inline void prefetch_tile(const void* tile) {
  for (std::size_t line = 0; line < kTileBytes; line += 64) __builtin_prefetch(static_cast<const char*>(tile) + line);
}

// The size of a vector register; 0: there are too few registers to hold a tile.
#if defined(__AVX512F__)
constexpr std::size_t kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kRegisterBytes = 32;
#elif defined(ANELLO_NEON)
constexpr std::size_t kRegisterBytes = 16;  // of 32 registers, a tile takes half
#else
constexpr std::size_t kRegisterBytes = 0;
#endif
template <class T>
struct Register {
  typedef T Type[[ gnu::vector_size(kRegisterBytes == 0 ? 16 : kRegisterBytes), gnu::aligned(1), gnu::may_alias ]];
};

// Calls wide(pack, i) for whole packs, from i on. Returns the first element that is left.
template <class Pack, class Wide>
[[gnu::always_inline]] inline std::size_t walk_packs(std::size_t i, std::size_t count, Wide wide) {
  if constexpr (Pack::kLanes != 0) {
    for (; count - i >= Pack::kLanes; i += Pack::kLanes) wide(Pack{}, i);
  }
  return i;
}

// Uses the Packs in their order, each as often as it fits, then element(i) for the rest. All give the same bits.
template <class... Packs, class Wide, class Element>
[[gnu::always_inline]] inline void walk(std::size_t count, Wide wide, Element element) {
  std::size_t i = 0;
  ((i = walk_packs<Packs>(i, count, wide)), ...);
  // Ranges are equal or disjoint: no iteration reads what another wrote.
  ANELLO_NO_OVERLAP
  for (; i < count; ++i) element(i);
}

// The Pack that has the reduce of two operands.
template <class Pack>
struct PairsOf {
  using type = NoPack<void>;
};
template <class Pack>
requires requires { typename Pack::Pairs; }
struct PairsOf<Pack> {
  using type = typename Pack::Pairs;
};

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
  using A = SumOf<T, Accumulator, op>;
  static constexpr bool kAccumulates = !std::is_same_v<T, A>;
  static constexpr bool kDivides = op == ANELLO_AVG;
  using Pack = std::conditional_t<kAccumulates, PackOf<T>, NoPack<T>>;
  using Environment = std::conditional_t<kFloating<T> && !kSelects, DefaultFloats, NoFloats>;

  static void reduce(void* into, const void* left, const void* right, std::size_t count) {
    reduce_to(static_cast<Elements<T>>(into), Nowhere{}, left, right, count);
  }
  static void reduce_twice(void* into, void* twin, const void* left, const void* right, std::size_t count) {
    reduce_to(static_cast<Elements<T>>(into), static_cast<Elements<T>>(twin), left, right, count);
  }

  // Works tile by tile, so that all operands stream at once.
  static void reduce_all(void* const* into, int destinations, const void* const* from, int sources, std::size_t count) {
    constexpr std::size_t kTile = kTileBytes / sizeof(T);
    const Environment environment;
    const Abreast all{into, destinations, from, sources};
    std::size_t done = 0;
    // Memory past the end belongs to another thread, which may be about to store there.
    for (; count - done >= kTile * (kTilesAhead + 1); done += kTile) {
      for (int s = 0; s < sources; ++s)
        prefetch_tile(static_cast<ConstElements<T>>(from[s]) + done + kTilesAhead * kTile);
      all.reduce_tile(done);
    }
    for (; count - done >= kTile; done += kTile) all.reduce_tile(done);
    if (done < count) all.reduce_elements(done, count - done);
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
          count, [=](auto pack, std::size_t k) { pack.store(i + k, quotient(pack.load_floats(a + k), ranks)); },
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

  static void scale(void* accumulator, const void* from, const void* factor, std::size_t count) {
    const Environment environment;
    const auto a = static_cast<Elements<A>>(accumulator);
    const auto f = static_cast<ConstElements<T>>(from);
    const A by = static_cast<ConstElements<A>>(factor)->get();
    walk<Pack>(
        count, [=](auto pack, std::size_t k) { pack.store_floats(a + k, canonical(pack.load(f + k) * by)); },
        [=](std::size_t k) { a[k].set(combine<ANELLO_PROD>(widened<A>(f[k].get()), by)); });
  }

  static constexpr Reducer reducer() {
    Reducer made{sizeof(T),  sizeof(A), kAccumulates, kDivides, reduce,        reduce_twice,
                 reduce_all, widen,     accumulate,   finish,   finish_in_type};
    if constexpr (op == ANELLO_SUM && !std::is_same_v<T, Bool>) made.scale = scale;
    return made;
  }

 private:
  // Stands for a second destination if there is none.
  struct Nowhere {};

  // For partial results. Only the last must have the canonical NaN; until then any NaN will do, because it stays NaN.
  static constexpr bool kLoose =
      std::is_floating_point_v<A> && (op == ANELLO_SUM || op == ANELLO_AVG || op == ANELLO_PROD);
  template <class V>
  [[gnu::always_inline]] static V partial(V left, V right) {
    if constexpr (kLoose) {
      return combine_loosely<op>(left, right);
    } else {
      return combine<op>(left, right);
    }
  }
  // Rounding to a narrower type makes NaNs canonical, as dividing does.
  template <class V>
  [[gnu::always_inline]] static V whole(V result, int ranks) {
    if constexpr (kLoose && !kDivides && !kAccumulates) {
      return canonical(result);
    } else {
      return quotient(result, ranks);
    }
  }

  // The operands of reduce_all.
  struct Abreast {
    void* const* into;
    int destinations;
    const void* const* from;
    int sources;

    [[gnu::always_inline]] void reduce_tile(std::size_t done) const {
      constexpr std::size_t kTile = kTileBytes / sizeof(T);  // a constant, so that the compiler uses the widest
                                                             // registers
      if constexpr (Pack::kLanes != 0) {
        reduce_packs(done, kTile);
      } else if constexpr (kRegisterBytes != 0 && kLoose && !kAccumulates) {
        reduce_in_registers(done * sizeof(T));
      } else {
        reduce_elements(done, kTile);
      }
    }
    [[gnu::always_inline]] void reduce_elements(std::size_t done, std::size_t n) const {
      alignas(64) Anywhere<A> tile[kTileBytes / sizeof(T)];
      const auto first = source(0, done), second = source(1, done);
      ANELLO_NO_OVERLAP
      for (std::size_t k = 0; k < n; ++k) tile[k].set(partial(widened<A>(first[k].get()), widened<A>(second[k].get())));
      for (int s = 2; s < sources; ++s) {
        const auto next = source(s, done);
        ANELLO_NO_OVERLAP
        for (std::size_t k = 0; k < n; ++k) tile[k].set(partial(tile[k].get(), widened<A>(next[k].get())));
      }
      if constexpr (kAccumulates) {
        const auto result = destination(0, done);
        ANELLO_NO_OVERLAP
        for (std::size_t k = 0; k < n; ++k) result[k].set(narrowed<T>(whole(tile[k].get(), sources)));
        copy_first(done, n);
      } else {
        for (std::size_t k = 0; (kLoose || kDivides) && k < n; ++k) tile[k].set(whole(tile[k].get(), sources));
        for (int d = 0; d < destinations; ++d) __builtin_memcpy(destination(d, done), tile, n * sizeof(T));
      }
    }
    [[gnu::always_inline]] ConstElements<T> source(int s, std::size_t done) const {
      return static_cast<ConstElements<T>>(from[s]) + done;
    }
    [[gnu::always_inline]] Elements<T> destination(int d, std::size_t done) const {
      return static_cast<Elements<T>>(into[d]) + done;
    }
    // All sources have been read.
    [[gnu::always_inline]] void copy_first(std::size_t done, std::size_t n) const {
      for (int d = 1; d < destinations; ++d)
        __builtin_memcpy(destination(d, done), destination(0, done), n * sizeof(T));
    }
    // Wider partial results stay in registers.
    [[gnu::always_inline]] void reduce_packs(std::size_t done, std::size_t n) const {
      walk_packs<Pack>(0, n, [&](auto pack, std::size_t k) {
        auto sum = combine_loosely<op>(pack.load(source(0, done) + k), pack.load(source(1, done) + k));
        for (int s = 2; s < sources; ++s) sum = combine_loosely<op>(sum, pack.load(source(s, done) + k));
        pack.store(destination(0, done) + k, whole(sum, sources));
      });
      copy_first(done, n);
    }
    // Without this, the compiler would pass partial results through memory.
    [[gnu::always_inline]] void reduce_in_registers(std::size_t at) const {
      using V = typename Register<T>::Type;
      constexpr std::size_t kRegisters = kTileBytes / sizeof(V);
      const auto vectors = [&](int s) { return reinterpret_cast<const V*>(static_cast<const char*>(from[s]) + at); };
      V sum[kRegisters];
      const V* const first = vectors(0);
      const V* const second = vectors(1);
      for (std::size_t r = 0; r < kRegisters; ++r) sum[r] = partial(first[r], second[r]);
      for (int s = 2; s < sources; ++s) {
        const V* const next = vectors(s);
        for (std::size_t r = 0; r < kRegisters; ++r) sum[r] = partial(sum[r], next[r]);
      }
      for (std::size_t r = 0; r < kRegisters; ++r) sum[r] = whole(sum[r], sources);
      for (int d = 0; d < destinations; ++d) {
        V* const result = reinterpret_cast<V*>(static_cast<char*>(into[d]) + at);
        for (std::size_t r = 0; r < kRegisters; ++r) result[r] = sum[r];
      }
    }
  };

  template <class Twin>
  [[gnu::always_inline]] static void reduce_to(Elements<T> i, Twin twin, const void* left, const void* right,
                                               std::size_t count) {
    constexpr bool kTwice = !std::is_same_v<Twin, Nowhere>;
    const Environment environment;
    const auto l = static_cast<ConstElements<T>>(left);
    const auto r = static_cast<ConstElements<T>>(right);
    if constexpr (kAccumulates && std::is_same_v<T, BFloat16> && Pack::kLanes == 0) {
      const auto pairs = reinterpret_cast<Elements<std::uint32_t>>(i);
      const auto left_pairs = reinterpret_cast<ConstElements<std::uint32_t>>(l);
      const auto right_pairs = reinterpret_cast<ConstElements<std::uint32_t>>(r);
      const std::size_t pair_count = count / 2;
      ANELLO_NO_OVERLAP
      for (std::size_t k = 0; k < pair_count; ++k) {
        const std::uint32_t pair = combine_pair<op>(left_pairs[k].get(), right_pairs[k].get());
        pairs[k].set(pair);
        if constexpr (kTwice) reinterpret_cast<Elements<std::uint32_t>>(twin)[k].set(pair);
      }
      if (count % 2 == 0) return;
      const std::size_t last = count - 1;
      i[last].set(narrowed<T>(combine<op>(widened<A>(l[last].get()), widened<A>(r[last].get()))));
      if constexpr (kTwice) twin[last] = i[last];
      return;
    }
    walk<typename PairsOf<Pack>::type, Pack>(
        count,
        [=](auto pack, std::size_t k) {
      if constexpr (std::is_same_v<decltype(pack), typename PairsOf<Pack>::type>) {
        pack.template reduce<op>(i + k, l + k, r + k);
        if constexpr (kTwice) __builtin_memcpy(twin + k, i + k, pack.kLanes * sizeof(T));
      } else {
        const auto result = combine_loosely<op>(pack.load(l + k), pack.load(r + k));
        pack.store(i + k, result);
        if constexpr (kTwice) pack.store(twin + k, result);
      }
        },
        [=](std::size_t k) {
      const T result = narrowed<T>(combine<op>(widened<A>(l[k].get()), widened<A>(r[k].get())));
      i[k].set(result);
      if constexpr (kTwice) twin[k].set(result);
    });
  }

  template <class V>
  [[gnu::always_inline]] static V quotient(V value, int ranks) {
    if constexpr (kDivides) {
      return divided(value, ranks);
    } else {
      return value;
    }
  }
};

template <template <class> class PackOf, class T, class Accumulator, anello_op_t op>
constexpr Reducer made_for() {
  if constexpr (std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>) {
    using Real = std::remove_extent_t<decltype(T::parts)>;
    using Parts = Kernels<PackOf, Real, Real, op>;
    using Linear = std::conditional_t<op == ANELLO_SUM, ComplexSum<T, Real, Parts>, Partwise<T, Parts>>;
    using Chosen = std::conditional_t<op == ANELLO_PROD, ComplexProduct<T, Real, Parts>, Linear>;
    return Chosen::reducer();
  } else if constexpr (op == ANELLO_MINLOC || op == ANELLO_MAXLOC) {
    using Pair = Located<decltype(T::value), sizeof(T)>;
    return Kernels<PackOf, Pair, Pair, op>::reducer();
  } else {
    return Kernels<PackOf, T, Accumulator, op>::reducer();
  }
}

template <template <class> class PackOf, anello_dtype_t dtype, class T, class Accumulator>
constexpr void fill(Reducer (&row)[kOps]) {
#define ANELLO_OP(enumerator, name, classes) \
  if constexpr (makes_sense(dtype, enumerator)) row[enumerator] = made_for<PackOf, T, Accumulator, enumerator>();
#include "base/ops.def"
#undef ANELLO_OP
}

template <template <class> class PackOf>
constexpr ReducerTable all_reducers() {
  ReducerTable table;
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  fill<PackOf, enumerator, storage, accumulator>(table.rows[enumerator]);
#include "base/dtypes.def"
#undef ANELLO_DTYPE
  return table;
}

}  // namespace
}  // namespace anello::kernels
