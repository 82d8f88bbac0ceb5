// The kernels of one image for the host: ANELLO_KERNEL_LIST names the list, ANELLO_FAKE_KERNELS its function.
#include "fake_cuda.h"

#include "kernels/cuda/body.h"

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
#include ANELLO_KERNEL_LIST
  };
  return kernels;
}

}  // namespace anello::testing
