// Sums two vectors for the ceilings. The compiler vectorises it for the widest registers of the processor.
#pragma once

#include <cstddef>

namespace compare {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define COMPARE_WIDEST __attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#else
#define COMPARE_WIDEST
#endif

// Stores the sum to both.
COMPARE_WIDEST static void sum_to_both(float* __restrict a, float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

COMPARE_WIDEST static void add(float* __restrict into, const float* __restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] += from[i];
}

}  // namespace compare
