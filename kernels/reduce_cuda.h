#pragma once
// Reductions over device memory. They give the bits of kernels/reduce.h, as if the host's functions had reduced the
// sources in the given order. They need no CUDA header; the driver is a table of functions (kernels/cuda/driver.h),
// which tests fill with their own.
#include "base/error.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/runs_as.h"
#include "kernels/reduce_levels.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

namespace anello::kernels {

namespace cuda {
enum class Form;
}

// destination_j[i] = source_0[i] op source_1[i] op .. for every destination j.
struct CudaReduction {
  anello_dtype_t dtype = ANELLO_FLOAT32;
  anello_op_t op = ANELLO_SUM;
  // There are 1 to 8 of each, in device memory with the alignment of the type (or of a complex number's or pair's
  // part). Ranges are equal or disjoint: a destination may be a source of equal width. A single source is copied,
  // whatever the operation, except that AVG divides it.
  cuda::Operands<const void*> sources;
  cuda::Operands<void*> destinations;
  std::size_t count = 0;
  int ranks = 1;  // AVG divides by it
  // One rank's part of a premultiplied sum: destination = *factor * source, rounded once, for SUM with one source and
  // the types that Reducer::scale supports. The factor is in host memory, has the accumulator's type, and is read
  // before the call returns.
  const void* factor = nullptr;
  // For types with a wider accumulator (float32 for 16- and 8-bit floats), with SUM, PROD and AVG: the first source
  // holds sums in the accumulator's type, or the destinations take such sums, neither divided nor rounded, as
  // Reducer::widen, accumulate and scale make them. For other types the accumulator is the type itself, and sums_out
  // only means undivided.
  bool sums_in = false;
  bool sums_out = false;
  void* stream = nullptr;  // CUstream of the current context
  int ctas = 0;            // the most blocks, which are then persistent; 0: as many as the work needs
};

// to[i] = from[i] * factor, or from[i] * factor + residual[i] rounded, of which residual[i] becomes the rounding error
// (0 if that is not finite). The types are one of cuda::kMoves, and products are formed in float32 where a type has 16
// bits. These are the bits of gradient_sync/element_copy.h.
struct CudaMove {
  anello_dtype_t from_type = ANELLO_FLOAT32, to_type = ANELLO_FLOAT32;
  const void* from = nullptr;  // device memory with the type's alignment
  void* to = nullptr;          // likewise; may equal from if the types do
  std::size_t count = 0;
  double factor = 1;
  float* residual = nullptr;       // device memory; for moves to a type of 16 bits from float32
  std::uint32_t* found = nullptr;  // as the device finds it: becomes 1 if an infinity or NaN goes in or comes out
  void* stream = nullptr;          // CUstream of the current context
};

class CudaReducer {
 public:
  // Both arguments must outlive the object, and the object must outlive every kernel that it launched. Loads nothing
  // yet.
  CudaReducer(const cuda::Driver& driver, const cuda::ImageTable& images) : driver_(driver), images_(images) {}
  ~CudaReducer();
  CudaReducer(const CudaReducer&) = delete;
  CudaReducer& operator=(const CudaReducer&) = delete;

  // Returns once the kernel is in the stream. Any thread with a current context may call it. The first call of a kind
  // loads its kernels, which may wait for the device; prepare() does this in advance.
  Error reduce(const CudaReduction& reduction);
  // Likewise.
  Error move(const CudaMove& move);
  // Loads all kernels of moves into the current context.
  Error prepare_moves();
  // Loads into the current context all kernels that a data type and operation may need.
  Error prepare(anello_dtype_t dtype, anello_op_t op);

 private:
  Error find(anello_dtype_t dtype, anello_op_t op, cuda::Form form, int granule, void*& kernel);
  Error find_move(anello_dtype_t from, anello_dtype_t to, void*& kernel);
  Error find_named(std::atomic<void*>& handle, int image, const std::string& name, void*& kernel);
  Error load(void* kernel);
  Error library(int image, void*& library);
  Error multiprocessors(int& count);

  // There are two for each type, operation and granule, and those that copy.
  static constexpr std::size_t kKernels = (2 * kDtypes * kOps + 1) * std::size(cuda::kGranules);
  const cuda::Driver& driver_;
  const cuda::ImageTable& images_;
  std::mutex loading_;
  std::array<void*, cuda::kImages> libraries_{};
  std::array<std::atomic<void*>, kKernels> kernels_{};
  std::array<std::atomic<void*>, std::size(cuda::kMoves)> moves_{};
  std::array<std::atomic<int>, 64> multiprocessors_{};
};

}  // namespace anello::kernels
