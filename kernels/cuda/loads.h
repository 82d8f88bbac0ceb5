#pragma once
// How many loads of a source a thread has under way, by which the kernel is unrolled and the grid is sized.
#include "kernels/cuda/runs_as.h"

namespace anello::kernels::cuda {

// Of 16 bytes. At 4, two blocks of 512 threads have 128 KiB of two sources under way. Where the arithmetic needs the
// registers, fewer; the test of ptxas' report says where.
constexpr int full_loads(anello_dtype_t dtype, anello_op_t op, Form form) {
  const std::size_t bytes = element_bytes(dtype);
  const bool floats = class_of(dtype) == kFloat;
  if (form == Form::copy) return 4;
  if (form == Form::wide) return bytes == 1 ? 1 : 2;
  const bool divides = op == ANELLO_AVG;
  const bool compares =
      op == ANELLO_MIN || op == ANELLO_MAX || op == ANELLO_LAND || op == ANELLO_LOR || op == ANELLO_LXOR;
  if (floats ? (divides || compares) && bytes == 1 : divides && bytes == 8) return 1;
  if (divides && bytes == 1 && !floats) return 4;  // what a division waits for, others hide
  return divides || has_wide(dtype, op) || (compares && bytes <= 2) ? 2 : 4;
}

// Of a granule each.
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
