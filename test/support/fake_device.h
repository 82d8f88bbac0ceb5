#pragma once
// What the fake CUDA device holds: memory, streams, what was asked of it, and what it was told to refuse.
#include "fake_cuda.h"
#include "fake_memory.h"
#include "fake_stream.h"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace anello::testing {

struct FakeEvent {
  std::chrono::steady_clock::time_point at;
};
using FakeGraph = std::vector<FakeWork>;

struct FakeDevice {
  // Counts the call. 0, or what it was told to return.
  int entered(const char* call);
  FakeStream& stream_of(void* stream) {
    return stream == nullptr ? *default_stream : *static_cast<FakeStream*>(stream);
  }
  // For all streams.
  void wait();
  void run(const FakeKernel& kernel, const kernels::cuda::Arguments& arguments, std::uint64_t threads);

  static thread_local std::vector<void*> contexts;  // of this thread; the last is current

  std::mutex mutex;
  FakeMemory memory;
  std::mutex streams_mutex;
  std::set<std::shared_ptr<FakeStream>> streams;
  std::unique_ptr<FakeStream> default_stream = std::make_unique<FakeStream>();
  std::map<std::string, std::pair<int, int>> failures;  // code, calls before it
  std::map<std::string, int> calls;
  std::vector<FakeLaunch> launches;
  std::atomic<int> fault{0};  // of a kernel: as on a device, seen at the next wait
};

FakeDevice& fake_device();

}  // namespace anello::testing
