#pragma once
// The work of each thread of a reduction: destination_j[i] = source_0[i] op .. op source_k[i], in that order. nvcc
// compiles it for the device, and the host's compiler for tests, which call it once per thread.
//
// Bytes in flight decide the rate. A warp takes a hunk of kUnroll x 32 neighbouring units, loads all of two sources
// before it combines them, and stores. A unit is the smallest number of bytes that is a whole number of granules and of
// elements.
#include "kernels/cuda/arguments.h"
#include "kernels/cuda/work.h"

namespace anello::kernels::cuda {
namespace {

template <int bytes>
struct WordOf {
  using type = std::uint32_t;
};
template <>
struct WordOf<2> {
  using type = std::uint16_t;
};
template <>
struct WordOf<1> {
  using type = std::uint8_t;
};

// One load or store.
template <int bytes>
struct alignas(bytes) [[gnu::may_alias]] Granule {
  typename WordOf<bytes>::type words[bytes < 4 ? 1 : bytes / 4];
};

// This many bytes, loaded and stored by granules.
template <int bytes, int granule>
struct [[gnu::may_alias]] Unit {
  static_assert(bytes % granule == 0);
  Granule<granule> granules[bytes / granule];
};

// The elements of type T in a unit.
template <class T, class U>
struct Content {
  T items[sizeof(U) / sizeof(T)];
};

template <class U>
ANELLO_INLINE U load(const unsigned char* from) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(from));
#endif
  return *reinterpret_cast<const U*>(from);
}

template <class U>
ANELLO_INLINE void store(unsigned char* into, const U& unit) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(into));
#endif
  *reinterpret_cast<U*>(into) = unit;
}

// The running result of a unit: sums if they are wider than elements, otherwise packed as in memory, to save registers.
template <class W, class U>
class Running {
  using Element = typename W::Element;
  using Sum = typename W::Sum;
  static constexpr int kCount = sizeof(U) / sizeof(Element);

 public:
  ANELLO_INLINE void start(const U& unit) {
    if constexpr (W::kWidens) {
      held_ = widened(unit);
    } else {
      held_ = __builtin_bit_cast(Held, unit);
    }
  }
  // Sums in the layout of memory, for the same number of elements.
  using Sums = Content<Sum, Unit<kCount* static_cast<int>(sizeof(Sum)), alignof(Sum)>>;
  ANELLO_INLINE void start_with(const Sums& sums) { held_ = __builtin_bit_cast(Held, sums); }
  ANELLO_INLINE Sums sums() const { return __builtin_bit_cast(Sums, held_); }

  ANELLO_INLINE void add(const U& unit) {
    if constexpr (kPaired && !W::kWidens) {
      const auto from = __builtin_bit_cast(Pairs, unit);
      auto held = __builtin_bit_cast(Pairs, held_);
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        held.items[i] = selected_pair<Element, W::kOp>(held.items[i], from.items[i]);
      }
      held_ = __builtin_bit_cast(Held, held);
    } else {
      const Sums from = widened(unit);
      auto sums = __builtin_bit_cast(Sums, held_);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.items[i] = W::combine(sums.items[i], from.items[i]);
      held_ = __builtin_bit_cast(Held, sums);
    }
  }
  ANELLO_INLINE void scale(const unsigned char* factor) {
    const Sum by = *reinterpret_cast<const Sum*>(factor);
    auto sums = __builtin_bit_cast(Sums, held_);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums.items[i] = W::combine(sums.items[i], by);
    held_ = __builtin_bit_cast(Held, sums);
  }
  ANELLO_INLINE U finish(int ranks) const {
    auto sums = __builtin_bit_cast(Sums, held_);
    if constexpr (W::kOp == ANELLO_AVG) average(sums, ranks);
    if constexpr (kPaired && W::kWidens) {
      Pairs results;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        results.items[i] = rounded_pair<Element>({sums.items[2 * i], sums.items[2 * i + 1]});
      }
      return __builtin_bit_cast(U, results);
    } else {
      Elements results;
#pragma unroll
      for (int i = 0; i < kCount; ++i) results.items[i] = W::narrow(sums.items[i]);
      return __builtin_bit_cast(U, results);
    }
  }

 private:
  static constexpr bool kPaired = W::kPairs && kCount % 2 == 0;
  using Elements = Content<Element, U>;
  using Pairs = Content<PairOf<Element>, U>;

  // A division takes many instructions. The reciprocal of a power of two is exact, so the product rounds as the
  // quotient does.
  ANELLO_INLINE static void average(Sums& sums, int ranks) {
    if (W::kWidens && (ranks & (ranks - 1)) == 0) {
      const Sum part = static_cast<Sum>(1) / static_cast<Sum>(ranks);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.items[i] = sums.items[i] * part;
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.items[i] = divided(sums.items[i], ranks);
    }
  }

  ANELLO_INLINE static Sums widened(const U& unit) {
    Sums sums;
    if constexpr (kPaired && W::kWidens) {
      const auto from = __builtin_bit_cast(Pairs, unit);
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const WidePair wide = widened_pair<Element>(from.items[i]);
        sums.items[2 * i] = wide.low;
        sums.items[2 * i + 1] = wide.high;
      }
    } else {
      const auto from = __builtin_bit_cast(Elements, unit);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.items[i] = W::widen(from.items[i]);
    }
    return sums;
  }

  using Held = std::conditional_t<W::kWidens, Sums, U>;
  Held held_;
};

template <class W, int granule>
class Body {
  static constexpr int kElementBytes = sizeof(typename W::Element);
  using Whole = Unit<(kElementBytes > granule ? kElementBytes : granule), granule>;
  using Single = Unit<kElementBytes, W::kAlignment>;
  static constexpr int kPerUnit = sizeof(Whole) / kElementBytes;
  static constexpr int kUnroll = loads(W::kLoads, granule);

 public:
  ANELLO_INLINE static void run(const Arguments& arguments, std::uint64_t thread, std::uint64_t threads) {
    const std::uint64_t units = (arguments.count - arguments.head) / kPerUnit;
    const std::uint64_t hunks = units / (kUnroll * kWarp);
    const std::uint64_t first = std::uint64_t{arguments.head} * kElementBytes;
#pragma unroll 1
    for (std::uint64_t hunk = thread / kWarp; hunk < hunks; hunk += threads / kWarp) {
      reduce<Whole, kUnroll>(arguments, first + (hunk * kUnroll * kWarp + thread % kWarp) * sizeof(Whole));
    }
#pragma unroll 1
    for (std::uint64_t unit = hunks * kUnroll * kWarp + thread; unit < units; unit += threads) {
      reduce<Whole, 1>(arguments, first + unit * sizeof(Whole));
    }
    // The head and the rest after the last unit. Each is less than a unit.
    const std::uint64_t rest = arguments.count - units * kPerUnit;
#pragma unroll 1
    for (std::uint64_t i = thread; i < rest; i += threads) {
      const std::uint64_t element = i < arguments.head ? i : i + units * kPerUnit;
      reduce<Single, 1>(arguments, element * kElementBytes);
    }
  }

 private:
  // This many units, each kWarp units after the one before. The first is at this offset in bytes.
  template <class U, int unroll>
  ANELLO_INLINE static void reduce(const Arguments& arguments, std::uint64_t offset) {
    constexpr std::uint64_t kStride = kWarp * sizeof(U);
    constexpr int kWidth = sizeof(typename W::Sum) / kElementBytes;  // sums lie this many times as far apart
    constexpr int kWideBytes = kWidth * static_cast<int>(sizeof(U));
    using Wide = Unit<kWideBytes, (kWideBytes < 16 ? kWideBytes : 16)>;
    const bool alone = arguments.source_count == 1;
    U first[unroll], unit[unroll];
    Running<W, U> sums[unroll];
    if (W::kWideOperands && arguments.sums_in != 0) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) {
        const Wide wide = load<Wide>(arguments.sources[0] + kWidth * (offset + k * kStride));
        sums[k].start_with(__builtin_bit_cast(typename Running<W, U>::Sums, wide));
      }
    } else {
#pragma unroll
      for (int k = 0; k < unroll; ++k) first[k] = load<U>(arguments.sources[0] + offset + k * kStride);
      if constexpr (!W::kPairs) {
#pragma unroll
        for (int k = 0; k < unroll; ++k) sums[k].start(first[k]);
      }
    }
    // A branch between two sources' loads costs nothing: no thread waits before it uses what it loaded.
    if (!alone) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) unit[k] = load<U>(arguments.sources[1] + offset + k * kStride);
    }
    // Widening is such a use, so pairs are widened after the loads of both sources.
    if constexpr (W::kPairs) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) sums[k].start(first[k]);
    }
    if (!alone) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) sums[k].add(unit[k]);
    } else if constexpr (W::kScales) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) sums[k].scale(arguments.factor);
    }
#pragma unroll 1
    for (int s = 2; s < arguments.source_count; ++s) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) unit[k] = load<U>(arguments.sources[s] + offset + k * kStride);
#pragma unroll
      for (int k = 0; k < unroll; ++k) sums[k].add(unit[k]);
    }
    if (W::kWideOperands && arguments.sums_out != 0) {
#pragma unroll 1
      for (int d = 0; d < arguments.destination_count; ++d) {
#pragma unroll
        for (int k = 0; k < unroll; ++k) {
          store(arguments.destinations[d] + kWidth * (offset + k * kStride), __builtin_bit_cast(Wide, sums[k].sums()));
        }
      }
      return;
    }
#pragma unroll
    for (int k = 0; k < unroll; ++k) unit[k] = sums[k].finish(arguments.ranks);
#pragma unroll 1
    for (int d = 0; d < arguments.destination_count; ++d) {
#pragma unroll
      for (int k = 0; k < unroll; ++k) store(arguments.destinations[d] + offset + k * kStride, unit[k]);
    }
  }
};

}  // namespace
}  // namespace anello::kernels::cuda
