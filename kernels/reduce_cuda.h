#pragma once
// Reductions over device memory, with the bits of kernels/reduce.h: as if the host's functions had folded the sources
// in the order given. Needs no CUDA header; the driver is a table of functions (kernels/cuda/driver.h), which tests
// fill with their own.
#include "base/error.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/operands.h"
#include "kernels/reduce_levels.h"

#include <array>
#include <atomic>
#include <mutex>

namespace anello::kernels {

namespace cuda {
enum class Form;
}

// destination_j[i] = source_0[i] op source_1[i] op .. for every destination j.
struct CudaReduction {
  anello_dtype_t dtype = ANELLO_FLOAT32;
  anello_op_t op = ANELLO_SUM;
  // 1 to 8 of each, device memory with the alignment of the type (of a complex number's or pair's part). Ranges are
  // equal or disjoint: a destination may be a source of equal width. One source is copied, whatever the operation, but
  // for AVG, which divides it.
  cuda::Operands<const void*> sources;
  cuda::Operands<void*> destinations;
  std::size_t count = 0;
  int ranks = 1;  // AVG divides by it
  // A premultiplied sum's part of one rank: destination = *factor * source, of SUM and one source, of the types that
  // Reducer::scale knows, rounded once. In host memory, of the accumulator's type, read before the call returns.
  const void* factor = nullptr;
  // Of types whose accumulator is wider (float32 of 16- and 8-bit floats), with SUM, PROD and AVG: the first source
  // holds sums in that type, and the destinations take them so, neither divided nor rounded, as Reducer::widen,
  // accumulate and scale make them. Of other types the accumulator is the type: sums_out then means undivided.
  bool sums_in = false;
  bool sums_out = false;
  void* stream = nullptr;  // CUstream of the current context
  int ctas = 0;            // blocks at most, which then stay until all is done; 0: as many as the work has
};

class CudaReducer {
 public:
  // Both must outlive it, and it every kernel that it launched. Loads nothing yet.
  CudaReducer(const cuda::Driver& driver, const cuda::ImageTable& images) : driver_(driver), images_(images) {}
  ~CudaReducer();
  CudaReducer(const CudaReducer&) = delete;
  CudaReducer& operator=(const CudaReducer&) = delete;

  // Returns once the kernel is in the stream. Any thread, with a context current. What it needs is loaded at the first
  // call of its kind, which may wait for the device: prepare() does that ahead.
  Error reduce(const CudaReduction& reduction);
  // All kernels that a data type and operation may need.
  Error prepare(anello_dtype_t dtype, anello_op_t op);

 private:
  Error find(anello_dtype_t dtype, anello_op_t op, cuda::Form form, int granule, void*& kernel);
  Error library(int image, void*& library);
  Error multiprocessors(int& count);

  // Two for each type, operation and granule, and those that copy.
  static constexpr std::size_t kKernels = (2 * kDtypes * kOps + 1) * std::size(cuda::kGranules);
  const cuda::Driver& driver_;
  const cuda::ImageTable& images_;
  std::mutex loading_;
  std::array<void*, cuda::kImages> libraries_{};
  std::array<std::atomic<void*>, kKernels> kernels_{};
  std::array<std::atomic<int>, 64> multiprocessors_{};
};

}  // namespace anello::kernels
