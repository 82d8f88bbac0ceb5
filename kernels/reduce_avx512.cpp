// AVX-512 F, BW, DQ and VL.
#include "kernels/float8_avx512.h"
#include "kernels/pack_avx512.h"

namespace anello::kernels {
namespace {

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

  struct Pairs : LinePairs<BFloat16, Pairs> {
    template <anello_op_t op>
    static __m512i combined(__m512i left, __m512i right) {
      const Alternate floats = combined_floats<op>(floats_above(left), floats_above(right));
      const __m512i words = upper_halves(rounded(floats.even), rounded(floats.odd));
      // A NaN from bfloat16 operands has no bits that rounding could carry.
      const __m512i magnitudes = _mm512_and_si512(words, _mm512_set1_epi16(0x7fff));
      const __mmask32 nan = _mm512_cmpgt_epi16_mask(magnitudes, _mm512_set1_epi16(Format<BFloat16>::infinity));
      return _mm512_mask_blend_epi16(nan, words, _mm512_set1_epi16(Format<BFloat16>::nan));
    }
  };

 private:
  // The upper half is the nearest number, ties to even. Not for a NaN with bits in the lower half.
  static __m512i rounded(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  }
};

}  // namespace

constinit const ReducerTable kAvx512Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
