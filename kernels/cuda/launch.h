#pragma once
// Turns a reduction into a launch: the kernel, the granules, the number of threads. It has no side effects, so tests
// see each decision.
#include "kernels/cuda/runs_as.h"
#include "kernels/reduce_cuda.h"

#include <string>

namespace anello::kernels::cuda {

struct Launch {
  anello_dtype_t dtype = ANELLO_BYTE;
  anello_op_t op = ANELLO_SUM;
  Form form = Form::elements;
  int granule = 16;
  Arguments arguments{};
  unsigned blocks = 0;  // 0: nothing to do
  unsigned threads = 0;
};

// "anello_float32_sum_16", "anello_float16_sum_wide_16", "anello_copy_4".
std::string kernel_name(anello_dtype_t dtype, anello_op_t op, Form form, int granule);

// ANELLO_OK, or what is wrong with the call; then nothing was launched.
Error plan(const CudaReduction& reduction, int multiprocessors, Launch& launch);

}  // namespace anello::kernels::cuda
