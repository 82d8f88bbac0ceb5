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

  // Two vectors of float32 from sixteen words, of the even ones and of the odd ones, spare unpacking and packing.
  struct Pairs {
    static constexpr std::size_t kLanes = 32;
    template <anello_op_t op>
    static void reduce(void* into, const void* left, const void* right) {
      prefetch(left);
      prefetch(right);
      const auto i = static_cast<__m256i*>(into);
      const auto l = static_cast<const __m256i*>(left), r = static_cast<const __m256i*>(right);
      _mm256_storeu_si256(i, combined<op>(_mm256_loadu_si256(l), _mm256_loadu_si256(r)));
      _mm256_storeu_si256(i + 1, combined<op>(_mm256_loadu_si256(l + 1), _mm256_loadu_si256(r + 1)));
    }

   private:
    static __m256 evens(__m256i words) { return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16)); }
    static __m256 odds(__m256i words) {
      return _mm256_castsi256_ps(_mm256_blend_epi16(_mm256_setzero_si256(), words, 0xaa));
    }
    template <anello_op_t op>
    static __m256i combined(__m256i left, __m256i right) {
      const __m256i even = rounded(combine_loosely<op>(evens(left), evens(right)));
      const __m256i odd = rounded(combine_loosely<op>(odds(left), odds(right)));
      const __m256i words = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
      // A NaN of bfloat16 operands has no bits that rounding could carry.
      const __m256i magnitudes = _mm256_and_si256(words, _mm256_set1_epi16(0x7fff));
      const __m256i nan = _mm256_cmpgt_epi16(magnitudes, _mm256_set1_epi16(Format<BFloat16>::infinity));
      return _mm256_blendv_epi8(words, _mm256_set1_epi16(Format<BFloat16>::nan), nan);
    }
  };

 private:
  // In the upper half the nearest, to even between two; not of a NaN with bits in the lower half.
  static __m256i rounded(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
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

// Of sixteen words as wide as a float16, float32 and back. What comes back is rounded twice in all, to float16 and then
// to 8 bits, which is as good as once for a sum or product of two: where a sum has more bits than a float16, the
// smaller operand is too small to bring the larger one near a tie, and a product has twice its factors' bits, 8 at
// most. Where the spacing stays, near zero, ties are no products of such factors. (The test of all pairs says so, too.)
template <anello_op_t op>
__m256i combined_halves(__m256i left, __m256i right, __m256 factor) {
  const auto half = [&](__m128i l, __m128i r) {
    __m256 l_floats = _mm256_cvtph_ps(l);
    if constexpr (op == ANELLO_PROD) l_floats *= factor;
    return _mm256_cvtps_ph(combine_loosely<op>(l_floats, _mm256_cvtph_ps(r)), _MM_FROUND_TO_NEAREST_INT);
  };
  return _mm256_set_m128i(half(_mm256_extracti128_si256(left, 1), _mm256_extracti128_si256(right, 1)),
                          half(_mm256_castsi256_si128(left), _mm256_castsi256_si128(right)));
}

// The upper bits of a float16's magnitude, rounded to even.
template <int dropped>
__m256i upper(__m256i magnitudes) {
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(magnitudes, dropped), _mm256_set1_epi16(1));
  const __m256i half = _mm256_set1_epi16((1 << (dropped - 1)) - 1);
  return _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(magnitudes, half), odd), dropped);
}

__m128i sixteen_bytes(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

void store_sixteen(void* into, __m256i words) {
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(static_cast<__m128i*>(into), bytes);
}

__m256i magnitudes_of(__m256i halves) { return _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff)); }
__m256i signs_of(__m256i halves) { return _mm256_and_si256(_mm256_srli_epi16(halves, 8), _mm256_set1_epi16(0x80)); }

// A float8_e5m2 is the upper half of a float16.
template <>
struct Pack<Float8E5M2> : Float32Pack {
  static __m256 load(const void* from) {
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(eight_bytes(from)), 8));
  }
  static void store(void* into, __m256 values) {
    store_bytes(into, values, magnitude_e5m2<__m256, Words>(values), kNan8E5M2);
  }

  struct Pairs {
    static constexpr std::size_t kLanes = 16;
    template <anello_op_t op>
    static void reduce(void* into, const void* left, const void* right) {
      const __m256i halves = combined_halves<op>(load_halves(left), load_halves(right), _mm256_set1_ps(1));
      const __m256i magnitudes = magnitudes_of(halves);
      const __m256i numbers = _mm256_or_si256(upper<8>(magnitudes), signs_of(halves));
      const __m256i nan = _mm256_cmpgt_epi16(magnitudes, _mm256_set1_epi16(0x7c00));
      store_sixteen(into, _mm256_blendv_epi8(numbers, _mm256_set1_epi16(kNan8E5M2), nan));
    }

   private:
    static __m256i load_halves(const void* from) { return _mm256_slli_epi16(_mm256_cvtepu8_epi16(sixteen_bytes(from)), 8); }
  };
};

// As a float16 its exponent, smaller by 8, makes 2^-8 of the number. NaN has all bits set, so that 1 more carries into the
// exponent's highest, which is what makes a float16 of it NaN.
template <>
struct Pack<Float8E4M3> : Float32Pack {
  static __m256 load(const void* from) {
    return _mm256_cvtph_ps(_mm256_castsi256_si128(scaled_halves(eight_bytes(from)))) * _mm256_set1_ps(0x1p8f);
  }
  static void store(void* into, __m256 values) {
    store_bytes(into, values, magnitude_e4m3<__m256, Words>(values), kNan8E4M3);
  }

  // The result's float16 is 2^-8 of it as well, so its upper bits are the E4M3's.
  struct Pairs {
    static constexpr std::size_t kLanes = 16;
    template <anello_op_t op>
    static void reduce(void* into, const void* left, const void* right) {
      const __m256i halves = combined_halves<op>(scaled_halves(sixteen_bytes(left)), scaled_halves(sixteen_bytes(right)),
                                                 _mm256_set1_ps(0x1p8f));
      const __m256i nan = _mm256_set1_epi16(kNan8E4M3);
      const __m256i numbers = _mm256_min_epi16(upper<7>(magnitudes_of(halves)), nan);
      const __m256i signs = _mm256_andnot_si256(_mm256_cmpeq_epi16(numbers, nan), signs_of(halves));
      store_sixteen(into, _mm256_or_si256(numbers, signs));
    }
  };

 private:
  static __m256i scaled_halves(__m128i bytes) {
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
    const __m256i half = _mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(0xbf80)));
    const __m256i carried = _mm256_add_epi16(half, _mm256_set1_epi16(0x0080));
    const __m256i nan = _mm256_and_si256(carried, _mm256_set1_epi16(0x4000));
    return _mm256_or_si256(half, nan);
  }
};

}  // namespace

constinit const ReducerTable kAvx2Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
