// This machine's.
#include "gpu/device.h"

namespace gpu {

Platform platform(const std::string& images) {
  const Driver& driver = anello::kernels::cuda::driver();
  return {driver, images.empty() ? anello::kernels::cuda::images() : anello::kernels::cuda::load_images(images)};
}

}  // namespace gpu
