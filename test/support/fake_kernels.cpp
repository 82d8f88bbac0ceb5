// The kernels of one image for the host: ANELLO_KERNEL_LIST names the list, ANELLO_IMAGE its number.
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

template <int image>
const std::vector<FakeKernel>& kernels_of();

template <>
const std::vector<FakeKernel>& kernels_of<ANELLO_IMAGE>() {
  static const std::vector<FakeKernel> kernels = {
#define ANELLO_KERNEL(name, dtype, op, granule) \
  {#name, sizeof(typename Work<dtype, op>::Element), run<Work<dtype, op>, granule>},
#define ANELLO_COPY_KERNEL(name, granule) {#name, 1, run<Copy, granule>},
#include ANELLO_KERNEL_LIST
  };
  return kernels;
}

}  // namespace anello::testing
