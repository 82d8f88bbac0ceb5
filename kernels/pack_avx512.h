#pragma once
// The common parts of the Packs (reduce_loops.h) of AVX-512.
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

// 32 words as the upper halves of float32, with even and odd words separate, which avoids unpacking and packing.
struct Alternate {
  __m512 even, odd;
};
Alternate floats_above(__m512i words) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}
template <anello_op_t op>
Alternate combined_floats(Alternate left, Alternate right) {
  return {combine_loosely<op>(left.even, right.even), combine_loosely<op>(left.odd, right.odd)};
}
// The lower halves of even's 32-bit words and the upper halves of odd's.
__m512i interleaved(__m512i even, __m512i odd) { return _mm512_mask_blend_epi16(0xaaaaaaaa, even, odd); }
__m512i upper_halves(__m512i even, __m512i odd) { return interleaved(_mm512_srli_epi32(even, 16), odd); }

// 64 bytes of each operand, as Vectors::combined takes them.
template <class T, class Vectors>
struct LinePairs {
  static constexpr std::size_t kLanes = 64 / sizeof(T);
  template <anello_op_t op>
  static void reduce(void* into, const void* left, const void* right) {
    prefetch(left);
    prefetch(right);
    _mm512_storeu_si512(into, Vectors::template combined<op>(_mm512_loadu_si512(left), _mm512_loadu_si512(right)));
  }
};

}  // namespace
}  // namespace anello::kernels
