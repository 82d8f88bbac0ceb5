// AVX-512 F, BW, DQ and VL.
#include "kernels/reduce_loops.h"

#include <immintrin.h>

namespace anello::kernels {
namespace {

template <class T>
struct Pack : NoPack<T> {};

struct Float32Pack {
  static constexpr std::size_t kLanes = 16;
  static __m512 load_floats(const void* from) { return _mm512_loadu_ps(from); }
  static void store_floats(void* into, __m512 values) { _mm512_storeu_ps(into, values); }
};

template <>
struct Pack<Float16> : Float32Pack {
  static __m512 load(const void* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  }
  // The conversion would keep a NaN's payload.
  static void store(void* into, __m512 values) {
    _mm256_storeu_si256(static_cast<__m256i*>(into), _mm512_cvtps_ph(canonical(values), _MM_FROUND_TO_NEAREST_INT));
  }
};

template <>
struct Pack<BFloat16> : Float32Pack {
  static __m512 load(const void* from) {
    const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }
  static void store(void* into, __m512 values) {
    const __m512i words = _mm512_srli_epi32(rounded(canonical(values)), 16);
    _mm256_storeu_si256(static_cast<__m256i*>(into), _mm512_cvtepi32_epi16(words));
  }

  // Two vectors of float32 from 32 words, of the even ones and of the odd ones, spare unpacking and packing.
  struct Pairs {
    static constexpr std::size_t kLanes = 32;
    template <anello_op_t op>
    static void reduce(void* into, const void* left, const void* right) {
      prefetch(left);
      prefetch(right);
      const __m512i l = _mm512_loadu_si512(left), r = _mm512_loadu_si512(right);
      const __m512i even = rounded(combine_loosely<op>(evens(l), evens(r)));
      const __m512i odd = rounded(combine_loosely<op>(odds(l), odds(r)));
      const __m512i words = _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(even, 16), odd);
      // A NaN of bfloat16 operands has no bits that rounding could carry.
      const __m512i magnitudes = _mm512_and_si512(words, _mm512_set1_epi16(0x7fff));
      const __mmask32 nan = _mm512_cmpgt_epi16_mask(magnitudes, _mm512_set1_epi16(Format<BFloat16>::infinity));
      _mm512_storeu_si512(into, _mm512_mask_blend_epi16(nan, words, _mm512_set1_epi16(Format<BFloat16>::nan)));
    }

   private:
    static constexpr __mmask32 kOdd = 0xaaaaaaaa;
    static __m512 evens(__m512i words) { return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)); }
    static __m512 odds(__m512i words) {
      return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
    }
  };

 private:
  // In the upper half the nearest, to even between two; not of a NaN with bits in the lower half.
  static __m512i rounded(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  }
};

using Words = std::int32_t __attribute__((vector_size(64)));

void store_bytes(void* into, __m512 signs, Words magnitudes, std::int32_t nan) {
  const __m128i bytes = _mm512_cvtepi32_epi8(__builtin_bit_cast(__m512i, magnitudes));
  const __mmask16 numbers = _mm_cmpneq_epi8_mask(bytes, _mm_set1_epi8(static_cast<char>(nan)));
  const __mmask16 negative = _kand_mask16(numbers, _mm512_movepi32_mask(_mm512_castps_si512(signs)));
  _mm_storeu_si128(static_cast<__m128i*>(into), _mm_mask_blend_epi8(negative, bytes, _mm_or_si128(bytes, _mm_set1_epi8(-128))));
}

// A float8_e5m2 is the upper half of a float16.
template <>
struct Pack<Float8E5M2> : Float32Pack {
  static __m512 load(const void* from) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
  }
  static void store(void* into, __m512 values) {
    store_bytes(into, values, magnitude_e5m2<__m512, Words>(values), kNan8E5M2);
  }
};

// As a float16 its exponent, smaller by 8, makes 2^-8 of the number. NaN has all bits set, so that 1 more carries into the
// exponent's highest, which is what makes a float16 of it NaN.
template <>
struct Pack<Float8E4M3> : Float32Pack {
  static __m512 load(const void* from) { return load_scaled(from) * _mm512_set1_ps(0x1p8f); }
  static void store(void* into, __m512 values) { store_scaled<0>(into, values); }
  // As load, combine and store would, but that rounding undoes the scale: of operations whose result's scale is known.
  template <anello_op_t op>
    requires(op == ANELLO_SUM || op == ANELLO_AVG || op == ANELLO_PROD)
  static void reduce(void* into, const void* left, const void* right) {
    store_scaled<op == ANELLO_PROD ? 16 : 8>(into, combine_loosely<op>(load_scaled(left), load_scaled(right)));
  }

 private:
  static __m512 load_scaled(const void* from) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(from)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
    const __m256i carried = _mm256_add_epi16(half, _mm256_set1_epi16(0x0080));
    const __m256i nan = _mm256_and_si256(carried, _mm256_set1_epi16(0x4000));
    return _mm512_cvtph_ps(_mm256_or_si256(half, nan));
  }
  template <int scale>
  static void store_scaled(void* into, __m512 values) {
    store_bytes(into, values, magnitude_e4m3<__m512, Words, scale>(values), kNan8E4M3);
  }
};

}  // namespace

constinit const ReducerTable kAvx512Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
