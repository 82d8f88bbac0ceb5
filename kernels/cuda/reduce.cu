// The kernels of one image. ANELLO_KERNEL_LIST names the file that list_kernels wrote for it.
#include "kernels/cuda/body.h"
#include "kernels/cuda/move.h"

namespace anello::kernels::cuda {
namespace {

template <class W, int granule>
__device__ __forceinline__ void run(const Arguments& arguments) {
  Body<W, granule>::run(arguments, std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                        std::uint64_t{gridDim.x} * blockDim.x);
}

}  // namespace
}  // namespace anello::kernels::cuda

// Two blocks per multiprocessor leave 64 registers to a thread.
#define ANELLO_GLOBAL(name, granule, ...)                                             \
  extern "C" __global__ void __launch_bounds__(anello::kernels::cuda::kMaxThreads, 2) \
      name(const __grid_constant__ anello::kernels::cuda::Arguments arguments) {      \
    using namespace anello::kernels::cuda;                                            \
    run<__VA_ARGS__, granule>(arguments);                                             \
  }
#define ANELLO_KERNEL(name, dtype, op, granule) ANELLO_GLOBAL(name, granule, Work<dtype, op>)
#define ANELLO_WIDE_KERNEL(name, dtype, op, granule) ANELLO_GLOBAL(name, granule, WideWork<dtype, op>)
#define ANELLO_COPY_KERNEL(name, granule) ANELLO_GLOBAL(name, granule, Copy)
#define ANELLO_MOVE_KERNEL(name, from, into)                                            \
  extern "C" __global__ void __launch_bounds__(anello::kernels::cuda::kMaxThreads, 2)   \
      name(const __grid_constant__ anello::kernels::cuda::MoveArguments arguments) {    \
    using namespace anello::kernels::cuda;                                              \
    using Moving = Mover<typename Types<from>::Storage, typename Types<into>::Storage>; \
    Moving::run(arguments, std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,        \
                std::uint64_t{gridDim.x} * blockDim.x);                                 \
  }
#include ANELLO_KERNEL_LIST
