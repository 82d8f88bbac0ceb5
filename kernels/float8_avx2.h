#pragma once
// The 8-bit floats for AVX2. Conversions go through float32, 32 elements at a time, as does the sum of two E4M3; other
// sums and products of two go through float16.
#include "kernels/pack_avx2.h"

namespace anello::kernels {
namespace {

using Words = std::int32_t __attribute__((vector_size(32)));

__m128i packed(__m256i words) {
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  return _mm_packs_epi16(halves, halves);  // signed: keeps numbers of 7 bits, and the sign of any other
}

void store_bytes(void* into, __m256 signs, Words magnitudes, std::int32_t nan) {
  const __m128i bytes = packed(__builtin_bit_cast(__m256i, magnitudes & 0xff));
  const __m128i negative = _mm_and_si128(packed(_mm256_castps_si256(signs)), _mm_set1_epi8(-128));
  const __m128i nans = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(static_cast<char>(nan)));
  _mm_storel_epi64(static_cast<__m128i*>(into), _mm_or_si128(bytes, _mm_andnot_si128(nans, negative)));
}

__m128i eight_bytes(const void* from) { return _mm_loadl_epi64(static_cast<const __m128i*>(from)); }

__m256i bytes_of(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }

// 32 words, in the order that results from unpacking and packing within halves of a vector.
struct Unpacked {
  __m256i low, high;
};

// Each byte above a byte of zeros.
Unpacked upper_bytes(__m256i bytes) {
  const __m256i zero = _mm256_setzero_si256();
  return {_mm256_unpacklo_epi8(zero, bytes), _mm256_unpackhi_epi8(zero, bytes)};
}

// Converts float16 to float32 and back. The result is rounded twice, to float16 and then to 8 bits. For a sum or
// product of two this equals rounding once: if a sum has more bits than a float16, the smaller operand is too small to
// bring the larger one near a tie, and a product has twice its factors' bits, at most 8. Near zero, where the spacing
// is constant, no product of such factors is a tie. (The test of all pairs confirms this.)
template <anello_op_t op>
Unpacked combined_halves(Unpacked left, Unpacked right, float factor) {
  const auto eight = [&](__m128i l, __m128i r) {
    __m256 l_floats = _mm256_cvtph_ps(l);
    if constexpr (op == ANELLO_PROD) l_floats *= _mm256_set1_ps(factor);
    return _mm256_cvtps_ph(combine_loosely<op>(l_floats, _mm256_cvtph_ps(r)), _MM_FROUND_TO_NEAREST_INT);
  };
  const auto sixteen = [&](__m256i l, __m256i r) {
    return _mm256_set_m128i(eight(_mm256_extracti128_si256(l, 1), _mm256_extracti128_si256(r, 1)),
                            eight(_mm256_castsi256_si128(l), _mm256_castsi256_si128(r)));
  };
  return {sixteen(left.low, right.low), sixteen(left.high, right.high)};
}

// The upper byte of each word, plus 1 if the lower byte is above the middle, or at the middle with an odd upper byte.
__m256i rounded_bytes(Unpacked words) {
  const __m128i even_first = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  const __m256i order = _mm256_broadcastsi128_si256(even_first);
  const __m256i low = _mm256_shuffle_epi8(words.low, order), high = _mm256_shuffle_epi8(words.high, order);
  const __m256i lower = _mm256_unpacklo_epi64(low, high), upper = _mm256_unpackhi_epi64(low, high);
  // 0x7e, or 0x7f if the upper byte is odd: a lower byte that rounds up saturates with it.
  const __m256i beyond = _mm256_and_si256(_mm256_or_si256(upper, bytes_of(0x7e)), bytes_of(0x7f));
  const __m256i up = _mm256_cmpeq_epi8(_mm256_adds_epu8(lower, beyond), bytes_of(0xff));
  return _mm256_sub_epi8(upper, up);
}

// A float8_e5m2 is the upper half of a float16.
template <>
struct Pack<Float8E5M2> : Float32Pack {
  static __m256 load(const void* from) {
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(eight_bytes(from)), 8));
  }
  static void store(void* into, __m256 values) {
    store_bytes(into, values, magnitude_e5m2<__m256, Words>(values), kNan8E5M2);
  }

  struct Pairs : LinePairs<Float8E5M2, Pairs> {
    template <anello_op_t op>
    static __m256i combined(__m256i left, __m256i right) {
      // The lower half of a NaN is zero: results of such operands have no bits there, so rounding leaves a NaN.
      const __m256i bytes = rounded_bytes(combined_halves<op>(upper_bytes(left), upper_bytes(right), 1));
      const __m256i magnitudes = _mm256_and_si256(bytes, bytes_of(0x7f));
      const __m256i nan = _mm256_cmpgt_epi8(magnitudes, bytes_of(Format<Float8E5M2>::infinity));
      return _mm256_blendv_epi8(bytes, bytes_of(kNan8E5M2), nan);
    }
  };
};

template <>
struct Pack<Float8E4M3> : Float32Pack {
  // As a float16, its exponent is smaller by 8, which gives 2^-8 of the number. NaN has all bits set, so adding 1
  // carries into the exponent's highest bit, which makes the float16 NaN.
  static __m256 load(const void* from) {
    const __m128i words = _mm_slli_epi16(_mm_cvtepi8_epi16(eight_bytes(from)), 7);
    const __m128i half = _mm_and_si128(words, _mm_set1_epi16(static_cast<short>(0xbf80)));
    const __m128i carried = _mm_add_epi16(half, _mm_set1_epi16(0x0080));
    const __m128i nan = _mm_and_si128(carried, _mm_set1_epi16(0x4000));
    return _mm256_cvtph_ps(_mm_or_si128(half, nan)) * _mm256_set1_ps(0x1p8f);
  }
  static void store(void* into, __m256 values) {
    store_bytes(into, values, magnitude_e4m3<__m256, Words>(values), kNan8E4M3);
  }

  struct Pairs : LinePairs<Float8E4M3, Pairs> {
    template <anello_op_t op>
    static __m256i combined(__m256i left, __m256i right) {
      if constexpr (op == ANELLO_PROD) {
        const Unpacked halves = combined_halves<op>(spread<1>(left), spread<1>(right), 0x1p8f);
        const Unpacked magnitudes = {_mm256_slli_epi16(halves.low, 1), _mm256_slli_epi16(halves.high, 1)};
        return finished(magnitudes, halves, left, right);
      } else {
        const Unpacked l = spread<4>(left), r = spread<4>(right);
        const Alternate low = combined_floats<op>(floats_above(l.low), floats_above(r.low));
        const Alternate high = combined_floats<op>(floats_above(l.high), floats_above(r.high));
        return finished({magnitudes(low), magnitudes(high)}, {signed_words(low), signed_words(high)}, left, right);
      }
    }

   private:
    // Moves each byte to the upper byte of a word and shifts all but the sign down by bits. Shifted by 1, it is a
    // float16, 2^-8 of the number. Shifted by 4, it is the upper half of a float32, 2^-120 of the number, and sums
    // scale in the same way: the denormals of both types have one spacing. (They slow down products, not sums.) A NaN
    // counts as 480.
    template <int bits>
    static Unpacked spread(__m256i bytes) {
      const Unpacked words = upper_bytes(bytes);
      const __m256i copied_sign = _mm256_set1_epi16(0x7fff & ~(0x7fff >> bits));
      return {_mm256_andnot_si256(copied_sign, _mm256_srai_epi16(words.low, bits)),
              _mm256_andnot_si256(copied_sign, _mm256_srai_epi16(words.high, bits))};
    }
    // A sum's E4M3 and 8 of the 20 excess bits. These 8 bits decide the rounding: if other bits are set as well, the
    // smaller operand is too small to bring the larger one near a tie. (All pairs are tested.)
    static __m256i magnitudes(Alternate sums) {
      return interleaved(_mm256_srli_epi32(_mm256_castps_si256(sums.even), 12),
                         _mm256_slli_epi32(_mm256_castps_si256(sums.odd), 4));
    }
    static __m256i signed_words(Alternate sums) {
      return upper_halves(_mm256_castps_si256(sums.even), _mm256_castps_si256(sums.odd));
    }
    static __m256i finished(Unpacked magnitudes, Unpacked signed_words, __m256i left, __m256i right) {
      const __m256i nan = bytes_of(kNan8E4M3);
      const __m256i numbers = _mm256_min_epu8(_mm256_or_si256(rounded_bytes(magnitudes), nans(left, right)), nan);
      // Saturation turns a negative word into the sign alone.
      const __m256i signs = _mm256_and_si256(_mm256_packs_epi16(signed_words.low, signed_words.high), bytes_of(0x80));
      return _mm256_or_si256(numbers, _mm256_andnot_si256(_mm256_cmpeq_epi8(numbers, nan), signs));
    }
    static __m256i nans(__m256i left, __m256i right) {
      const __m256i sign = bytes_of(0x80);
      const __m256i larger = _mm256_max_epu8(_mm256_or_si256(left, sign), _mm256_or_si256(right, sign));
      return _mm256_cmpeq_epi8(larger, bytes_of(0xff));
    }
  };
};

}  // namespace
}  // namespace anello::kernels
