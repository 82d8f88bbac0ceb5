// AVX2 and F16C.
#include "kernels/float8_avx2.h"
#include "kernels/pack_avx2.h"

namespace anello::kernels {
namespace {

template <>
struct Pack<Float16> : Float32Pack {
  static __m256 load(const void* from) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))); }
  // The conversion would keep a NaN's payload.
  static void store(void* into, __m256 values) {
    _mm_storeu_si128(static_cast<__m128i*>(into), _mm256_cvtps_ph(canonical(values), _MM_FROUND_TO_NEAREST_INT));
  }
};

template <>
struct Pack<BFloat16> : Float32Pack {
  static __m256 load(const void* from) {
    const __m128i words = _mm_loadu_si128(static_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
  }
  static void store(void* into, __m256 values) {
    const __m256i words = _mm256_srli_epi32(rounded(canonical(values)), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(static_cast<__m128i*>(into), packed);
  }

  struct Pairs : LinePairs<BFloat16, Pairs> {
    template <anello_op_t op>
    static __m256i combined(__m256i left, __m256i right) {
      const Alternate floats = combined_floats<op>(floats_above(left), floats_above(right));
      const __m256i words = upper_halves(rounded(floats.even), rounded(floats.odd));
      // A NaN from bfloat16 operands has no bits that rounding could carry.
      const __m256i magnitudes = _mm256_and_si256(words, _mm256_set1_epi16(0x7fff));
      const __m256i nan = _mm256_cmpgt_epi16(magnitudes, _mm256_set1_epi16(Format<BFloat16>::infinity));
      return _mm256_blendv_epi8(words, _mm256_set1_epi16(Format<BFloat16>::nan), nan);
    }
  };

 private:
  // The upper half is the nearest number, ties to even. Not for a NaN with bits in the lower half.
  static __m256i rounded(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  }
};

}  // namespace

constinit const ReducerTable kAvx2Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
