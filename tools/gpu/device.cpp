#include "gpu/device.h"

#include <algorithm>
#include <vector>

namespace gpu {

Memory::Memory(const Driver& driver, std::size_t bytes) : driver_(driver), bytes_(bytes) {
  if (const int code = driver_.allocate(&address_, bytes); code != 0) {
    throw anello::kernels::cuda::driver_error(driver_, ("cuMemAlloc of " + std::to_string(bytes) + " bytes").c_str(),
                                              code);
  }
}

Memory::~Memory() { driver_.release(address_); }

Device::Device(const Platform& platform) : driver_(platform.driver), reducer_(platform.driver, platform.images) {
  void* context = nullptr;
  check("cuDeviceGet", driver_.device(&number_, 0));
  check("cuDevicePrimaryCtxRetain", driver_.retain_context(&context, number_));
  check("cuCtxSetCurrent", driver_.set_context(context));
  check("cuStreamCreate", driver_.create_stream(&stream_, 1));  // separate from the default stream
  check("cuEventCreate", driver_.create_event(&begin_, 0));
  check("cuEventCreate", driver_.create_event(&end_, 0));
}

Device::~Device() {
  driver_.destroy_event(begin_);
  driver_.destroy_event(end_);
  driver_.destroy_stream(stream_);
  driver_.set_context(nullptr);
  driver_.release_context(number_);
}

void Device::check(const char* call, int code) const {
  if (code != 0) throw anello::kernels::cuda::driver_error(driver_, call, code);
}

int Device::attribute(int number) const {
  int value = 0;
  check("cuDeviceGetAttribute", driver_.device_attribute(&value, number, number_));
  return value;
}

std::string Device::name() const {
  char text[128] = "";
  check("cuDeviceGetName", driver_.device_name(text, sizeof text, number_));
  return text;
}

void Device::upload(unsigned char* into, const void* from, std::size_t bytes) {
  if (bytes != 0)
    check("cuMemcpyHtoDAsync", driver_.copy_to_device(reinterpret_cast<std::uint64_t>(into), from, bytes, stream_));
}

void Device::download(void* into, const unsigned char* from, std::size_t bytes) {
  if (bytes != 0)
    check("cuMemcpyDtoHAsync", driver_.copy_to_host(into, reinterpret_cast<std::uint64_t>(from), bytes, stream_));
  wait();
}

void Device::fill(unsigned char* into, unsigned char value, std::size_t bytes) {
  if (bytes != 0) check("cuMemsetD8Async", driver_.fill(reinterpret_cast<std::uint64_t>(into), value, bytes, stream_));
}

void Device::copy(unsigned char* into, const unsigned char* from, std::size_t bytes) {
  check("cuMemcpyDtoDAsync", driver_.copy_on_device(reinterpret_cast<std::uint64_t>(into),
                                                    reinterpret_cast<std::uint64_t>(from), bytes, stream_));
}

void Device::reduce(CudaReduction reduction) {
  reduction.stream = stream_;
  if (anello::Error error = reducer_.reduce(reduction)) throw error;
}

void Device::wait() { check("cuStreamSynchronize", driver_.wait_for_stream(stream_)); }

double Device::median_ms(const std::function<void(int round)>& work, int rounds) {
  constexpr int kWarmUp = 5;
  std::vector<float> times;
  for (int round = 0; round < kWarmUp + rounds; ++round) {
    check("cuEventRecord", driver_.record(begin_, stream_));
    work(round);
    check("cuEventRecord", driver_.record(end_, stream_));
    check("cuEventSynchronize", driver_.wait_for_event(end_));
    float ms = 0;
    check("cuEventElapsedTime", driver_.elapsed(&ms, begin_, end_));
    if (round >= kWarmUp) times.push_back(ms);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

double Device::replayed_ms(const std::function<void(int part)>& work, int parts) {
  work(0);  // loads everything that must not be loaded during a capture
  wait();
  void *graph = nullptr, *executable = nullptr;
  check("cuStreamBeginCapture", driver_.begin_capture(stream_, 2));  // for this stream only
  for (int part = 0; part < parts; ++part) work(part);
  check("cuStreamEndCapture", driver_.end_capture(stream_, &graph));
  check("cuGraphInstantiate", driver_.instantiate(&executable, graph, 0));
  const double ms = median_ms([&](int) { check("cuGraphLaunch", driver_.launch_graph(executable, stream_)); });
  check("cuGraphExecDestroy", driver_.destroy_executable(executable));
  check("cuGraphDestroy", driver_.destroy_graph(graph));
  return ms / parts;
}

}  // namespace gpu
