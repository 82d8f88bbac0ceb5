#pragma once
// The work of each thread of a move (kernels/move_cuda.cpp): to[i] = from[i] * factor + residual[i], rounded to the
// type of `to`. nvcc compiles it for the device, and the host's compiler for tests. It is in an unnamed namespace, as
// reduce_loops.h explains.
#include "kernels/cuda/arguments.h"
#include "kernels/cuda/convert.h"

#include <algorithm>

namespace anello::kernels::cuda {
namespace {

ANELLO_INLINE bool is_special(float value) {
  return (__builtin_bit_cast(std::uint32_t, value) & 0x7f800000u) == 0x7f800000u;
}
ANELLO_INLINE bool is_special(double value) {
  return (__builtin_bit_cast(std::uint64_t, value) & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}

ANELLO_INLINE double widened(double value) { return value; }
ANELLO_INLINE float widened(float value) { return value; }
// A NaN that stays wide keeps its payload, as on the host.
template <class T>
ANELLO_INLINE float widened(T value) {
  return to_float(value);
}

template <class To, class Wide>
ANELLO_INLINE To narrowed(Wide value) {
  if constexpr (std::is_same_v<To, Wide>) {
    return value;
  } else {
    return device_rounded<To>(value);
  }
}

// Neighbours that one thread loads and stores at once.
template <class T, int count>
struct alignas(sizeof(T) * count) [[gnu::may_alias]] Packet {
  T items[count];
};

template <class From, class To>
class Mover {
 public:
  // Elements of a packet: its larger side has 16 bytes. So have four residuals, where there are any.
  static constexpr int kPacket = 16 / static_cast<int>(sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));

  ANELLO_INLINE static void run(const MoveArguments& arguments, std::uint64_t thread, std::uint64_t threads) {
    const std::uint64_t packets = arguments.has_packets != 0 ? arguments.count / kPacket : 0;
    bool special = false;
    for (std::uint64_t p = thread; p < packets; p += threads) special |= move<kPacket>(arguments, p * kPacket);
    for (std::uint64_t i = packets * kPacket + thread; i < arguments.count; i += threads)
      special |= move<1>(arguments, i);
    // Several threads may store the same word.
    if (special && arguments.found != nullptr) *arguments.found = 1;
  }

 private:
  using Wide = decltype(widened(From{}));

  // Whether an infinity or NaN went in or came out: a factor of 0 hides the first, and rounding makes the second.
  template <int count>
  ANELLO_INLINE static bool move(const MoveArguments& arguments, std::uint64_t at) {
    const Wide by = static_cast<Wide>(arguments.factor);
    const bool multiplies = arguments.factor != 1;
    const auto in = *reinterpret_cast<const Packet<From, count>*>(arguments.from + at * sizeof(From));
    Packet<To, count> out;
    bool special = false;
    if constexpr (std::is_same_v<Wide, float> && sizeof(To) < sizeof(From)) {
      if (arguments.residual != nullptr) {
        auto* const residual = reinterpret_cast<Packet<float, count>*>(arguments.residual + at);
        Packet<float, count> rest = *residual;
#pragma unroll
        for (int i = 0; i < count; ++i) {
          const float value = widened(in.items[i]) * by + rest.items[i];
          out.items[i] = narrowed<To>(value);
          const float left = value - widened(out.items[i]);
          rest.items[i] = is_special(left) ? 0.0f : left;
        }
        *residual = rest;
        *reinterpret_cast<Packet<To, count>*>(arguments.to + at * sizeof(To)) = out;
        return false;
      }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const Wide value = widened(in.items[i]);
      out.items[i] = narrowed<To>(multiplies ? value * by : value);
      special |= is_special(value);
      special |= is_special(widened(out.items[i]));
    }
    *reinterpret_cast<Packet<To, count>*>(arguments.to + at * sizeof(To)) = out;
    return special;
  }
};

}  // namespace
}  // namespace anello::kernels::cuda
