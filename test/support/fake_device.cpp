#include "fake_device.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace anello::testing {

// CUresult
constexpr int kIllegalAddress = 700, kMisalignedAddress = 716;

thread_local std::vector<void*> FakeDevice::contexts;

FakeDevice& fake_device() {
  static FakeDevice one;
  return one;
}

FakeDevice::FakeDevice() {
  const char* const wanted = std::getenv("FAKE_CUDA_DEVICES");
  const int count = wanted != nullptr ? std::atoi(wanted) : 1;
  const char* const engines = std::getenv("FAKE_CUDA_ENGINES");
  has_two_engines = engines != nullptr && std::atoi(engines) == 2;
  for (int number = 0; number < count; ++number) devices.emplace_back(number);
}

FakeContext& FakeDevice::current() {
  void* const context = contexts.empty() ? nullptr : contexts.back();
  for (FakeContext& each : devices) {
    if (&each == context) return each;
  }
  return devices.front();
}

void FakeDevice::put(void* stream, FakeWork work, FakeCopy copy) {
  FakeStream& own = stream_of(stream);
  FakeContext& context = own.context();
  FakeEngine* const engine = engine_of(context, copy);
  if (&own != &context.default_stream) {
    own.put(own.order() == FakeStream::Order::with_default ? context.default_stream.after(std::move(work))
                                                           : std::move(work),
            engine);
    return;
  }
  {
    const std::lock_guard lock(streams_mutex);
    for (const auto& each : streams) {
      if (&each->context() == &context && each->order() == FakeStream::Order::with_default)
        work = each->after(std::move(work));
    }
  }
  own.put(std::move(work), engine);
}

int FakeDevice::attribute(int which) {
  const std::lock_guard lock(mutex);
  const auto found = attributes.find(which);
  return found == attributes.end() ? 0 : found->second;
}

int FakeDevice::entered(const char* call) {
  const std::lock_guard lock(mutex);
  ++calls[call];
  const auto found = failures.find(call);
  if (found == failures.end() || found->second.second-- > 0) return 0;
  return found->second.first;
}

void FakeDevice::wait() {
  for (FakeContext& each : devices) each.default_stream.wait();
  std::set<std::shared_ptr<FakeStream>> all;  // that stay while this waits
  {
    const std::lock_guard lock(streams_mutex);
    all = streams;
  }
  for (const auto& stream : all) stream->wait();
}

void FakeDevice::run(const FakeContext& context, const FakeKernel& kernel, const kernels::cuda::Arguments& arguments,
                     std::uint64_t threads) {
  kernels::cuda::Arguments real = arguments;
  const auto check = [&](auto& operand, bool sums) {
    const std::size_t element = sums ? kernel.sum_bytes : kernel.element_bytes;
    void* const found = memory.real(operand, arguments.count * element);
    const int owner = memory.find(reinterpret_cast<std::uint64_t>(operand)).device;
    if (found == nullptr || (owner != context.device && context.reaches.count(owner) == 0)) fault = kIllegalAddress;
    const auto at = reinterpret_cast<std::uint64_t>(operand);
    operand = static_cast<std::remove_reference_t<decltype(operand)>>(found);
    const std::size_t per_unit = std::max(kernel.granule_bytes / kernel.element_bytes, std::size_t{1});
    if (arguments.count - arguments.head < per_unit) return;  // none is loaded whole
    const std::size_t load = sums ? std::min(per_unit * element, std::size_t{16}) : kernel.granule_bytes;
    const auto first = at + arguments.head * element;
    if (first % load != 0) fault = kMisalignedAddress;
  };
  for (int s = 0; s < arguments.source_count; ++s) check(real.sources[s], s == 0 && arguments.sums_in != 0);
  for (int d = 0; d < arguments.destination_count; ++d) check(real.destinations[d], arguments.sums_out != 0);
  if (fault != 0) return;
  for (std::uint64_t thread = 0; thread < threads; ++thread) kernel.run(real, thread, threads);
}

void FakeDevice::move(const FakeContext& context, const FakeKernel& kernel,
                      const kernels::cuda::MoveArguments& arguments, std::uint64_t threads) {
  kernels::cuda::MoveArguments real = arguments;
  const auto check = [&](auto& operand, std::size_t element) {
    if (operand == nullptr) return;
    void* const found = memory.real(operand, arguments.count * element);
    if (found == nullptr || memory.find(reinterpret_cast<std::uint64_t>(operand)).device != context.device)
      fault = kIllegalAddress;
    const std::size_t packet = arguments.has_packets != 0 ? kernel.granule_bytes / kernel.element_bytes : 1;
    if (reinterpret_cast<std::uint64_t>(operand) % (packet * element) != 0) fault = kMisalignedAddress;
    operand = static_cast<std::remove_reference_t<decltype(operand)>>(found);
  };
  check(real.from, kernel.element_bytes);
  check(real.to, kernel.sum_bytes);
  check(real.residual, sizeof(float));
  if (real.found != nullptr && !memory.is_pinned(real.found, sizeof *real.found)) fault = kIllegalAddress;
  if (fault != 0) return;
  for (std::uint64_t thread = 0; thread < threads; ++thread) kernel.move(real, thread, threads);
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

std::size_t allocated_bytes() { return fake_device().memory.allocated(); }

}  // namespace anello::testing
