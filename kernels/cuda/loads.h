#pragma once
// The number of loads of a source that a thread has in flight. It decides the unrolling of the kernel and the size of
// the grid.
#include "kernels/cuda/runs_as.h"

namespace anello::kernels::cuda {

// Loads of 16 bytes. With 4, two blocks of 512 threads have 128 KiB of two sources in flight. If the arithmetic needs
// the registers, there are fewer; the test of ptxas' report shows where.
constexpr int full_loads(anello_dtype_t dtype, anello_op_t op, Form form) {
  const std::size_t bytes = element_bytes(dtype);
  const bool floats = class_of(dtype) == kFloat;
  if (form == Form::copy) return 4;
  if (form == Form::wide) return bytes == 1 ? 1 : 2;
  const bool divides = op == ANELLO_AVG;
  const bool compares =
      op == ANELLO_MIN || op == ANELLO_MAX || op == ANELLO_LAND || op == ANELLO_LOR || op == ANELLO_LXOR;
  if (floats ? (divides || compares) && bytes == 1 : divides && bytes == 8) return 1;
  if (divides && bytes == 1 && !floats) return 4;  // other threads hide the latency of a division
  return divides || has_wide(dtype, op) || (compares && bytes <= 2) ? 2 : 4;
}

// Loads of one granule.
constexpr int loads(int full, int granule) {
  switch (granule) {
    case 16: return full;
    case 8: return 2 * full;
    case 4: return full < 4 ? 2 * full : 8;
    case 1: return 4 * full;
    default: return 8;
  }
}

}  // namespace anello::kernels::cuda
