#pragma once
// What the fake CUDA driver holds: devices, memory, streams, what was asked of it, and what it was told to refuse.
#include "fake_cuda.h"
#include "fake_memory.h"
#include "fake_stream.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace anello::testing {

struct FakeEvent {
  std::chrono::steady_clock::time_point at;
  std::atomic<std::uint64_t> recorded{0}, reached{0};  // how many times
};
using FakeGraph = std::vector<FakeWork>;

// A device's primary context.
struct FakeContext {
  explicit FakeContext(int number) : device(number) {}

  const int device;
  FakeEngine engines[2];  // before the stream, which uses them
  FakeStream default_stream{*this, FakeStream::Order::alone};
  std::set<int> reaches;  // other devices whose memory its kernels may use
};

struct FakeDevice {
  // FAKE_CUDA_DEVICES: how many there are, instead of one. FAKE_CUDA_ENGINES=2: copies to the host and to the device
  // have an engine each, instead of one together.
  FakeDevice();
  FakeEngine* engine_of(FakeContext& context, FakeCopy copy) const {
    if (copy == FakeCopy::none) return nullptr;
    return &context.engines[has_two_engines && copy == FakeCopy::to_device ? 1 : 0];
  }
  // Counts the call. 0, or what it was told to return.
  int entered(const char* call);
  // CUdevice_attribute. 0: nobody has set it.
  int attribute(int which);
  // This thread's. An address that is none of the driver's stands for device 0's.
  FakeContext& current();
  FakeStream& stream_of(void* stream) {
    return stream == nullptr ? current().default_stream : *static_cast<FakeStream*>(stream);
  }
  // In order with the device's default stream, unless the stream is not.
  void put(void* stream, FakeWork work, FakeCopy copy = FakeCopy::none);
  // For all streams.
  void wait();
  void run(const FakeContext& context, const FakeKernel& kernel, const kernels::cuda::Arguments& arguments,
           std::uint64_t threads);
  void move(const FakeContext& context, const FakeKernel& kernel, const kernels::cuda::MoveArguments& arguments,
            std::uint64_t threads);

  static thread_local std::vector<void*> contexts;  // of this thread; the last is current

  std::mutex mutex;
  FakeMemory memory;
  std::mutex streams_mutex;
  std::set<std::shared_ptr<FakeStream>> streams;
  std::deque<FakeContext> devices;
  std::map<std::string, std::pair<int, int>> failures;  // code, calls before it
  std::map<std::string, int> calls;
  std::map<int, int> attributes = {{kernels::cuda::kMultiprocessors, kFakeMultiprocessors},
                                   {kernels::cuda::kCapabilityMajor, 9},
                                   {kernels::cuda::kFlushOptions, kernels::cuda::kFlushFromHost},
                                   {kernels::cuda::kStoresOrdered, kernels::cuda::kForTheOwner},
                                   {kernels::cuda::kHasDmaBufs, 1},
                                   {102, 1},
                                   {103, 1},
                                   {122, 1},
                                   {125, 1}};  // what gpu-verify asks a device to have
  std::vector<FakeLaunch> launches;
  bool has_two_engines = false;
  std::atomic<bool> holds_kernels{false};
  std::atomic<int> most_fetched{-1}, fetched{0};  // copies to the host: no more are made than that; -1: any number
  std::atomic<int> fault{0};                      // of a kernel: as on a device, seen at the next wait
};

FakeDevice& fake_device();

}  // namespace anello::testing
