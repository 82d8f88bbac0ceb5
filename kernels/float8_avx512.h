#pragma once
// The 8-bit floats for AVX-512, twice as many at a time as in float8_avx2.h, which has the explanations.
#include "kernels/pack_avx512.h"

namespace anello::kernels {
namespace {

using Words = std::int32_t __attribute__((vector_size(64)));

void store_bytes(void* into, __m512 signs, Words magnitudes, std::int32_t nan) {
  const __m128i bytes = _mm512_cvtepi32_epi8(__builtin_bit_cast(__m512i, magnitudes));
  const __mmask16 numbers = _mm_cmpneq_epi8_mask(bytes, _mm_set1_epi8(static_cast<char>(nan)));
  const __mmask16 negative = _kand_mask16(numbers, _mm512_movepi32_mask(_mm512_castps_si512(signs)));
  _mm_storeu_si128(static_cast<__m128i*>(into),
                   _mm_mask_blend_epi8(negative, bytes, _mm_or_si128(bytes, _mm_set1_epi8(-128))));
}

__m512i bytes_of(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }

// 64 words, in the order that results from unpacking and packing within quarters of a vector.
struct Unpacked {
  __m512i low, high;
};

// Each byte above a byte of zeros.
Unpacked upper_bytes(__m512i bytes) {
  const __m512i zero = _mm512_setzero_si512();
  return {_mm512_unpacklo_epi8(zero, bytes), _mm512_unpackhi_epi8(zero, bytes)};
}

template <anello_op_t op>
Unpacked combined_halves(Unpacked left, Unpacked right, float factor) {
  const auto sixteen = [&](__m256i l, __m256i r) {
    __m512 l_floats = _mm512_cvtph_ps(l);
    if constexpr (op == ANELLO_PROD) l_floats *= _mm512_set1_ps(factor);
    return _mm512_cvtps_ph(combine_loosely<op>(l_floats, _mm512_cvtph_ps(r)), _MM_FROUND_TO_NEAREST_INT);
  };
  const auto thirty_two = [&](__m512i l, __m512i r) {
    const __m256i lower = sixteen(_mm512_castsi512_si256(l), _mm512_castsi512_si256(r));
    const __m256i upper = sixteen(_mm512_extracti64x4_epi64(l, 1), _mm512_extracti64x4_epi64(r, 1));
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
  };
  return {thirty_two(left.low, right.low), thirty_two(left.high, right.high)};
}

// The upper byte of each word, plus 1 if the lower byte is above the middle, or at the middle with an odd upper byte.
__m512i rounded_bytes(Unpacked words) {
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  const __m512i low = _mm512_shuffle_epi8(words.low, order), high = _mm512_shuffle_epi8(words.high, order);
  const __m512i lower = _mm512_unpacklo_epi64(low, high), upper = _mm512_unpackhi_epi64(low, high);
  // 0x7e, or 0x7f if the upper byte is odd: a lower byte that rounds up saturates with it.
  const __m512i beyond = _mm512_or_si512(_mm512_and_si512(upper, bytes_of(1)), bytes_of(0x7e));
  const __mmask64 up = _mm512_cmpeq_epi8_mask(_mm512_adds_epu8(lower, beyond), bytes_of(0xff));
  return _mm512_mask_add_epi8(upper, up, upper, bytes_of(1));
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

  struct Pairs : LinePairs<Float8E5M2, Pairs> {
    template <anello_op_t op>
    static __m512i combined(__m512i left, __m512i right) {
      // The lower half of a NaN is zero: results of such operands have no bits there, so rounding leaves a NaN.
      const __m512i bytes = rounded_bytes(combined_halves<op>(upper_bytes(left), upper_bytes(right), 1));
      const __m512i magnitudes = _mm512_and_si512(bytes, bytes_of(0x7f));
      const __mmask64 nan = _mm512_cmpgt_epi8_mask(magnitudes, bytes_of(Format<Float8E5M2>::infinity));
      return _mm512_mask_blend_epi8(nan, bytes, bytes_of(kNan8E5M2));
    }
  };
};

template <>
struct Pack<Float8E4M3> : Float32Pack {
  static __m512 load(const void* from) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(from)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
    const __m256i carried = _mm256_add_epi16(half, _mm256_set1_epi16(0x0080));
    const __m256i nan = _mm256_and_si256(carried, _mm256_set1_epi16(0x4000));
    return _mm512_cvtph_ps(_mm256_or_si256(half, nan)) * _mm512_set1_ps(0x1p8f);
  }
  static void store(void* into, __m512 values) {
    store_bytes(into, values, magnitude_e4m3<__m512, Words>(values), kNan8E4M3);
  }

  struct Pairs : LinePairs<Float8E4M3, Pairs> {
    template <anello_op_t op>
    static __m512i combined(__m512i left, __m512i right) {
      if constexpr (op == ANELLO_PROD) {
        const Unpacked halves = combined_halves<op>(spread<1>(left), spread<1>(right), 0x1p8f);
        const Unpacked magnitudes = {_mm512_slli_epi16(halves.low, 1), _mm512_slli_epi16(halves.high, 1)};
        return finished(magnitudes, halves, left, right);
      } else {
        const Unpacked l = spread<4>(left), r = spread<4>(right);
        const Alternate low = combined_floats<op>(floats_above(l.low), floats_above(r.low));
        const Alternate high = combined_floats<op>(floats_above(l.high), floats_above(r.high));
        return finished({magnitudes(low), magnitudes(high)}, {signed_words(low), signed_words(high)}, left, right);
      }
    }

   private:
    template <int bits>
    static Unpacked spread(__m512i bytes) {
      const Unpacked words = upper_bytes(bytes);
      const __m512i copied_sign = _mm512_set1_epi16(0x7fff & ~(0x7fff >> bits));
      return {_mm512_andnot_si512(copied_sign, _mm512_srai_epi16(words.low, bits)),
              _mm512_andnot_si512(copied_sign, _mm512_srai_epi16(words.high, bits))};
    }
    static __m512i magnitudes(Alternate sums) {
      return interleaved(_mm512_srli_epi32(_mm512_castps_si512(sums.even), 12),
                         _mm512_slli_epi32(_mm512_castps_si512(sums.odd), 4));
    }
    static __m512i signed_words(Alternate sums) {
      return upper_halves(_mm512_castps_si512(sums.even), _mm512_castps_si512(sums.odd));
    }
    static __m512i finished(Unpacked magnitudes, Unpacked signed_words, __m512i left, __m512i right) {
      const __m512i nan = bytes_of(kNan8E4M3);
      const __m512i bytes = rounded_bytes(magnitudes);
      const __mmask64 none = nans(left, right) | _mm512_cmpge_epu8_mask(bytes, nan);
      const __m512i signs = _mm512_and_si512(_mm512_packs_epi16(signed_words.low, signed_words.high), bytes_of(0x80));
      return _mm512_mask_blend_epi8(none, _mm512_or_si512(bytes, signs), nan);
    }
    static __mmask64 nans(__m512i left, __m512i right) {
      const __m512i sign = bytes_of(0x80);
      const __m512i larger = _mm512_max_epu8(_mm512_or_si512(left, sign), _mm512_or_si512(right, sign));
      return _mm512_cmpeq_epi8_mask(larger, bytes_of(0xff));
    }
  };
};

}  // namespace
}  // namespace anello::kernels
