// AVX-512 F, BW, DQ and VL.
#include "kernels/reduce_loops.h"

#include <immintrin.h>

namespace anello::kernels {
namespace {

template <class T>
struct Pack : NoPack<T> {};

template <>
struct Pack<Float16> {
  static constexpr std::size_t kLanes = 16;
  static __m512 load(const void* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  }
  // The conversion would keep a NaN's payload.
  static void store(void* into, __m512 values) {
    _mm256_storeu_si256(static_cast<__m256i*>(into), _mm512_cvtps_ph(canonical(values), _MM_FROUND_TO_NEAREST_INT));
  }
  static __m512 load_floats(const void* from) { return _mm512_loadu_ps(from); }
  static void store_floats(void* into, __m512 values) { _mm512_storeu_ps(into, values); }
};

}  // namespace

constinit const ReducerTable kAvx512Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
