#include "fake_device.h"

#include <utility>

namespace anello::testing {

constexpr int kIllegalAddress = 700;  // CUresult

thread_local bool FakeDevice::has_context = false;

FakeDevice& fake_device() {
  static FakeDevice one;
  return one;
}

int FakeDevice::entered(const char* call) {
  const std::lock_guard lock(mutex);
  ++calls[call];
  const auto found = failures.find(call);
  if (found == failures.end() || found->second.second-- > 0) return 0;
  return found->second.first;
}

bool FakeDevice::covered(const void* start, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto at = reinterpret_cast<std::uint64_t>(start);
  auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}

void FakeDevice::wait() {
  default_stream->wait();
  for (FakeStream* const stream : streams) stream->wait();
}

void FakeDevice::run(const FakeKernel& kernel, const kernels::cuda::Arguments& arguments, std::uint64_t threads) {
  const std::size_t bytes = arguments.count * kernel.element_bytes;
  bool legal = true;
  for (int s = 0; s < arguments.source_count; ++s) legal = legal && covered(arguments.sources[s], bytes);
  for (int d = 0; d < arguments.destination_count; ++d) legal = legal && covered(arguments.destinations[d], bytes);
  if (!legal) {
    fault = kIllegalAddress;
    return;
  }
  for (std::uint64_t thread = 0; thread < threads; ++thread) kernel.run(arguments, thread, threads);
}

void fail_cuda(const std::string& call, int code, int after) {
  const std::lock_guard lock(fake_device().mutex);
  if (code == 0) {
    fake_device().failures.erase(call);
  } else {
    fake_device().failures[call] = {code, after};
  }
}

void heal_cuda() {
  const std::lock_guard lock(fake_device().mutex);
  fake_device().failures.clear();
  fake_device().fault = 0;
}

std::vector<FakeLaunch> taken_launches() {
  const std::lock_guard lock(fake_device().mutex);
  return std::exchange(fake_device().launches, {});
}

int calls_of(const std::string& call) {
  const std::lock_guard lock(fake_device().mutex);
  return fake_device().calls[call];
}

std::size_t allocated_bytes() {
  const std::lock_guard lock(fake_device().mutex);
  std::size_t sum = 0;
  for (const auto& [address, bytes] : fake_device().allocations) sum += bytes;
  return sum;
}

}  // namespace anello::testing
