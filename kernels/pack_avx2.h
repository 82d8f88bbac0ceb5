#pragma once
// The common parts of the Packs (reduce_loops.h) of AVX2.
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

// 16 words as the upper halves of float32, with even and odd words separate, which avoids unpacking and packing.
struct Alternate {
  __m256 even, odd;
};
Alternate floats_above(__m256i words) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
          _mm256_castsi256_ps(_mm256_blend_epi16(_mm256_setzero_si256(), words, 0xaa))};
}
template <anello_op_t op>
Alternate combined_floats(Alternate left, Alternate right) {
  return {combine_loosely<op>(left.even, right.even), combine_loosely<op>(left.odd, right.odd)};
}
// The lower halves of even's 32-bit words and the upper halves of odd's.
__m256i interleaved(__m256i even, __m256i odd) { return _mm256_blend_epi16(even, odd, 0xaa); }
__m256i upper_halves(__m256i even, __m256i odd) { return interleaved(_mm256_srli_epi32(even, 16), odd); }

// 64 bytes of each operand, which Vectors::combined takes 32 at a time.
template <class T, class Vectors>
struct LinePairs {
  static constexpr std::size_t kLanes = 64 / sizeof(T);
  template <anello_op_t op>
  static void reduce(void* into, const void* left, const void* right) {
    prefetch(left);
    prefetch(right);
    const auto i = static_cast<__m256i*>(into);
    const auto l = static_cast<const __m256i*>(left), r = static_cast<const __m256i*>(right);
    _mm256_storeu_si256(i, Vectors::template combined<op>(_mm256_loadu_si256(l), _mm256_loadu_si256(r)));
    _mm256_storeu_si256(i + 1, Vectors::template combined<op>(_mm256_loadu_si256(l + 1), _mm256_loadu_si256(r + 1)));
  }
};

}  // namespace
}  // namespace anello::kernels
