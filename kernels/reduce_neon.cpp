// NEON, which every AArch64 processor has. Its compiler vectorises the other loops at the plain level too.
#include "kernels/reduce_loops.h"

#include <arm_neon.h>

namespace anello::kernels {
namespace {

template <class T>
struct Pack : NoPack<T> {};

struct Float32Pack {
  static constexpr std::size_t kLanes = 4;
  static float32x4_t load_floats(const void* from) { return vreinterpretq_f32_u8(vld1q_u8(bytes(from))); }
  static void store_floats(void* into, float32x4_t values) { vst1q_u8(bytes(into), vreinterpretq_u8_f32(values)); }

 protected:
  // Elements may be at any address.
  static const std::uint8_t* bytes(const void* from) { return static_cast<const std::uint8_t*>(from); }
  static std::uint8_t* bytes(void* into) { return static_cast<std::uint8_t*>(into); }
};

template <>
struct Pack<Float16> : Float32Pack {
  static float32x4_t load(const void* from) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes(from)))); }
  // The conversion would keep a NaN's payload.
  static void store(void* into, float32x4_t values) {
    vst1_u8(bytes(into), vreinterpret_u8_f16(vcvt_f16_f32(canonical(values))));
  }
};

template <>
struct Pack<BFloat16> : Float32Pack {
  static float32x4_t load(const void* from) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(bytes(from))), 16));
  }
  // The upper half is the nearest number, ties to even. The canonical NaN has no bits that rounding could carry.
  static void store(void* into, float32x4_t values) {
    const uint32x4_t bits = vreinterpretq_u32_f32(canonical(values));
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    vst1_u8(bytes(into), vreinterpret_u8_u16(vaddhn_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)))));
  }
};

// Four 8-bit floats, in the lower half of the vector.
uint8x8_t four_bytes(const void* from) {
  std::uint32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return vcreate_u8(four);
}

void store_bytes(void* into, float32x4_t signs, int32x4_t magnitudes, std::int32_t nan) {
  const uint32x4_t numbers = vandq_u32(vreinterpretq_u32_s32(magnitudes), vdupq_n_u32(0xff));
  const uint32x4_t sign = vandq_u32(vshrq_n_u32(vreinterpretq_u32_f32(signs), 24), vdupq_n_u32(0x80));
  const uint32x4_t nans = vceqq_u32(numbers, vdupq_n_u32(static_cast<std::uint32_t>(nan)));  // without a sign
  const uint16x4_t words = vmovn_u32(vorrq_u32(numbers, vbicq_u32(sign, nans)));
  const std::uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
  __builtin_memcpy(into, &four, sizeof four);
}

// A float8_e5m2 is the upper half of a float16.
template <>
struct Pack<Float8E5M2> : Float32Pack {
  static float32x4_t load(const void* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vshll_n_u8(four_bytes(from), 8))));
  }
  static void store(void* into, float32x4_t values) {
    store_bytes(into, values, magnitude_e5m2<float32x4_t, int32x4_t>(values), kNan8E5M2);
  }
};

template <>
struct Pack<Float8E4M3> : Float32Pack {
  // As a float16, its exponent is smaller by 8, which gives 2^-8 of the number. The exponent of a NaN, whose magnitude
  // has all bits set, gets the highest bit too, which makes the float16 a NaN.
  static float32x4_t load(const void* from) {
    const uint8x8_t small = four_bytes(from);
    const uint8x8_t nan = vceq_u8(vorr_u8(small, vdup_n_u8(0x80)), vdup_n_u8(0xff));
    const uint16x8_t words = vreinterpretq_u16_s16(vshll_n_s8(vreinterpret_s8_u8(small), 7));
    const uint16x8_t half =
        vorrq_u16(vandq_u16(words, vdupq_n_u16(0xbf80)), vandq_u16(vshll_n_u8(nan, 7), vdupq_n_u16(0x4000)));
    return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(half))) * vdupq_n_f32(0x1p8f);
  }
  static void store(void* into, float32x4_t values) {
    store_bytes(into, values, magnitude_e4m3<float32x4_t, int32x4_t>(values), kNan8E4M3);
  }
};

}  // namespace

constinit const ReducerTable kNeonReducers = all_reducers<Pack>();

}  // namespace anello::kernels
