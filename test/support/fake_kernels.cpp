// The kernels of one image for the host: ANELLO_KERNEL_LIST names the list, ANELLO_FAKE_KERNELS its function.
#include "fake_cuda.h"

#include "kernels/cuda/body.h"
#include "kernels/cuda/move.h"

namespace anello::testing {
namespace {

using namespace kernels::cuda;

template <class W, int granule>
void run(const Arguments& arguments, std::uint64_t thread, std::uint64_t threads) {
  Body<W, granule>::run(arguments, thread, threads);
}

}  // namespace

const std::vector<FakeKernel>& ANELLO_FAKE_KERNELS();

const std::vector<FakeKernel>& ANELLO_FAKE_KERNELS() {
  static const std::vector<FakeKernel> kernels = {
#define ANELLO_ONE(name, granule, ...) \
  {#name, sizeof(typename __VA_ARGS__::Element), sizeof(typename __VA_ARGS__::Sum), granule, run<__VA_ARGS__, granule>},
#define ANELLO_KERNEL(name, dtype, op, granule) ANELLO_ONE(name, granule, Work<dtype, op>)
#define ANELLO_WIDE_KERNEL(name, dtype, op, granule) ANELLO_ONE(name, granule, WideWork<dtype, op>)
#define ANELLO_COPY_KERNEL(name, granule) {#name, 1, 1, granule, run<Copy, granule>},
#define ANELLO_MOVE_KERNEL(name, from, to)                                                                             \
  {#name,                                                                                                              \
   sizeof(typename Types<from>::Storage),                                                                              \
   sizeof(typename Types<to>::Storage),                                                                                \
   sizeof(typename Types<from>::Storage) * Mover<typename Types<from>::Storage, typename Types<to>::Storage>::kPacket, \
   nullptr,                                                                                                            \
   &Mover<typename Types<from>::Storage, typename Types<to>::Storage>::run},
#include ANELLO_KERNEL_LIST
  };
  return kernels;
}

}  // namespace anello::testing
