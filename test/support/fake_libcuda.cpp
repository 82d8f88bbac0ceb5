// libcuda.so.1 for processes that tests start: the fake device behind the names of the driver. Its memory is guarded,
// unless FAKE_CUDA_UNGUARDED is set, for tests whose host code stands for a device's.
// ANELLO_FAKE_CUDA lists calls that fail: "cuMemcpyDtoHAsync_v2:719:3" returns 719 after 3 calls that work.
#include "fake_device.h"

#include <cstdlib>
#include <sstream>
#include <string>

using anello::kernels::cuda::IpcHandle, anello::kernels::cuda::MemoryAccess;
using anello::kernels::cuda::MemoryProperties, anello::kernels::cuda::RowsToDevice;
using anello::testing::fake_driver;

// Resolved when somebody looks the name up, long after this library has been initialised.
#define ANELLO_CUDA_CALL(field, name, parameters)                                      \
  extern "C" {                                                                         \
  int(*resolve_##name()) parameters { return fake_driver().field; }                    \
  __attribute__((ifunc("resolve_" #name), visibility("default"))) int name parameters; \
  }
#include "kernels/cuda/driver.def"
#undef ANELLO_CUDA_CALL

// For tests, which find these as they find the driver's functions.
extern "C" {
__attribute__((visibility("default"))) void fake_cuda_fail(const char* call, int code, int after);
__attribute__((visibility("default"))) void fake_cuda_hold(int hold);
__attribute__((visibility("default"))) void fake_cuda_hold_kernels(int hold);
__attribute__((visibility("default"))) void fake_cuda_hold_fetches(int after);
__attribute__((visibility("default"))) void fake_cuda_give_handles(int give);
__attribute__((visibility("default"))) void fake_cuda_attribute(int attribute, int value);
__attribute__((visibility("default"))) void fake_cuda_shift(int bytes);
__attribute__((visibility("default"))) int fake_cuda_opened();
__attribute__((visibility("default"))) int fake_cuda_calls(const char* call);

void fake_cuda_fail(const char* call, int code, int after) { anello::testing::fail_cuda(call, code, after); }
void fake_cuda_hold(int hold) { anello::testing::FakeStream::is_held() = hold != 0; }
void fake_cuda_hold_kernels(int hold) { anello::testing::fake_device().holds_kernels = hold != 0; }
void fake_cuda_hold_fetches(int after) {
  anello::testing::fake_device().fetched = 0;
  anello::testing::fake_device().most_fetched = after;
}
void fake_cuda_give_handles(int give) { anello::testing::fake_device().memory.has_handles(give != 0); }
void fake_cuda_attribute(int attribute, int value) {
  anello::testing::FakeDevice& device = anello::testing::fake_device();
  const std::lock_guard lock(device.mutex);
  device.attributes[attribute] = value;
}
void fake_cuda_shift(int bytes) { anello::testing::fake_device().memory.shift(static_cast<std::size_t>(bytes)); }
int fake_cuda_opened() { return static_cast<int>(anello::testing::fake_device().memory.opened()); }
int fake_cuda_calls(const char* call) { return anello::testing::calls_of(call); }
}

namespace {

[[gnu::constructor]] void set_up() {
  if (std::getenv("FAKE_CUDA_UNGUARDED") == nullptr) anello::testing::fake_device().memory.guard();
  const char* const failures = std::getenv("ANELLO_FAKE_CUDA");
  std::istringstream list(failures != nullptr ? failures : "");
  std::string name, code, after;
  while (std::getline(list, name, ':') && std::getline(list, code, ':') && std::getline(list, after, ','))
    anello::testing::fail_cuda(name, std::stoi(code), std::stoi(after));
}

}  // namespace
