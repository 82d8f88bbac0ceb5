// AVX2 and F16C.
#include "kernels/reduce_loops.h"

#include <immintrin.h>

namespace anello::kernels {
namespace {

template <class T>
struct Pack : NoPack<T> {};

struct Float32Pack {
  static constexpr std::size_t kLanes = 8;
  static __m256 load_floats(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
  static void store_floats(void* into, __m256 values) { _mm256_storeu_ps(static_cast<float*>(into), values); }
};

template <>
struct Pack<Float16> : Float32Pack {
  static __m256 load(const void* from) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))); }
  // The conversion would keep a NaN's payload.
  static void store(void* into, __m256 values) {
    _mm_storeu_si128(static_cast<__m128i*>(into), _mm256_cvtps_ph(canonical(values), _MM_FROUND_TO_NEAREST_INT));
  }
};

using Words = std::int32_t __attribute__((vector_size(32)));

__m128i packed(__m256i words) {
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  return _mm_packs_epi16(halves, halves);  // signed: keeps a number of 7 bits, and of any other the sign
}

void store_bytes(void* into, __m256 signs, Words magnitudes, std::int32_t nan) {
  const __m128i bytes = packed(__builtin_bit_cast(__m256i, magnitudes & 0xff));
  const __m128i negative = _mm_and_si128(packed(_mm256_castps_si256(signs)), _mm_set1_epi8(-128));
  const __m128i nans = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(static_cast<char>(nan)));
  _mm_storel_epi64(static_cast<__m128i*>(into), _mm_or_si128(bytes, _mm_andnot_si128(nans, negative)));
}

__m128i eight_bytes(const void* from) { return _mm_loadl_epi64(static_cast<const __m128i*>(from)); }

// A float8_e5m2 is the upper half of a float16.
template <>
struct Pack<Float8E5M2> : Float32Pack {
  static __m256 load(const void* from) {
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(eight_bytes(from)), 8));
  }
  static void store(void* into, __m256 values) {
    store_bytes(into, values, magnitude_e5m2<__m256, Words>(values), kNan8E5M2);
  }
};

// As a float16 its exponent, smaller by 8, makes 2^-8 of the number. NaN has all bits set, so that 1 more carries into the
// exponent's highest, which is what makes a float16 of it NaN.
template <>
struct Pack<Float8E4M3> : Float32Pack {
  static __m256 load(const void* from) { return load_scaled(from) * _mm256_set1_ps(0x1p8f); }
  static void store(void* into, __m256 values) { store_scaled<0>(into, values); }
  // As load, combine and store would, but that rounding undoes the scale: of operations whose result's scale is known.
  template <anello_op_t op>
    requires(op == ANELLO_SUM || op == ANELLO_AVG || op == ANELLO_PROD)
  static void reduce(void* into, const void* left, const void* right) {
    store_scaled<op == ANELLO_PROD ? 16 : 8>(into, combine_loosely<op>(load_scaled(left), load_scaled(right)));
  }

 private:
  static __m256 load_scaled(const void* from) {
    const __m128i words = _mm_slli_epi16(_mm_cvtepi8_epi16(eight_bytes(from)), 7);
    const __m128i half = _mm_and_si128(words, _mm_set1_epi16(static_cast<short>(0xbf80)));
    const __m128i carried = _mm_add_epi16(half, _mm_set1_epi16(0x0080));
    const __m128i nan = _mm_and_si128(carried, _mm_set1_epi16(0x4000));
    return _mm256_cvtph_ps(_mm_or_si128(half, nan));
  }
  template <int scale>
  static void store_scaled(void* into, __m256 values) {
    store_bytes(into, values, magnitude_e4m3<__m256, Words, scale>(values), kNan8E4M3);
  }
};

}  // namespace

constinit const ReducerTable kAvx2Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
