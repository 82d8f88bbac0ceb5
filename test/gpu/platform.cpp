// gpu-verify's rows on the fake device. ANELLO_FAKE_FAULT spoils every launch in one way, which the rows must notice.
#include "gpu/device.h"
#include "support/fake_cuda.h"

#include <cstdlib>
#include <cstring>

namespace gpu {
namespace {

using anello::kernels::cuda::Arguments;

int spoiled_launch(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
  static const char* const fault = std::getenv("ANELLO_FAKE_FAULT");
  static unsigned launches = 0;
  Arguments arguments = *static_cast<const Arguments*>(parameters[0]);
  const auto is = [](const char* name) { return std::strcmp(fault, name) == 0; };
  if (is("last element missing")) {
    --arguments.count;
  } else if (is("one element more")) {
    ++arguments.count;
  } else if (is("head too short") && arguments.head > 0) {
    --arguments.head;
  } else if (is("sources in another order")) {
    std::swap(arguments.sources[0], arguments.sources[arguments.source_count - 1]);
  } else if (is("every second call differs")) {
    if (++launches % 2 == 0) --arguments.count;
  } else if (is("a source is written to") && arguments.destination_count < anello::kernels::cuda::kMaxOperands) {
    const int last = arguments.destination_count++;
    arguments.destinations[last] = const_cast<unsigned char*>(arguments.sources[arguments.source_count - 1]);
  }
  void* spoiled[] = {&arguments};
  return anello::testing::fake_driver().launch(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                               stream, spoiled, extra);
}

}  // namespace

Platform platform(const std::string&) {
  static Driver driver = anello::testing::fake_driver();
  if (std::getenv("ANELLO_FAKE_FAULT") != nullptr) driver.launch = spoiled_launch;
  return {driver, anello::testing::fake_images()};
}

}  // namespace gpu
