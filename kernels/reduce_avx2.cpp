// AVX2 and F16C.
#include "kernels/reduce_loops.h"

#include <immintrin.h>

namespace anello::kernels {
namespace {

template <class T>
struct Pack : NoPack<T> {};

template <>
struct Pack<Float16> {
  static constexpr std::size_t kLanes = 8;
  static __m256 load(const void* from) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))); }
  // The conversion would keep a NaN's payload.
  static void store(void* into, __m256 values) {
    _mm_storeu_si128(static_cast<__m128i*>(into), _mm256_cvtps_ph(canonical(values), _MM_FROUND_TO_NEAREST_INT));
  }
  static __m256 load_floats(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
  static void store_floats(void* into, __m256 values) { _mm256_storeu_ps(static_cast<float*>(into), values); }
};

}  // namespace

constinit const ReducerTable kAvx2Reducers = all_reducers<Pack>();

}  // namespace anello::kernels
