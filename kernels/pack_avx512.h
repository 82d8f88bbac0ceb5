#pragma once
// What the Packs (reduce_loops.h) of AVX-512 have in common.
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
