#pragma once
// What the fake CUDA device holds: memory, streams, what was asked of it, and what it was told to refuse.
#include "fake_cuda.h"
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
  bool covered(const void* start, std::size_t bytes);
  FakeStream& stream_of(void* stream) {
    return stream == nullptr ? *default_stream : *static_cast<FakeStream*>(stream);
  }
  // For all streams.
  void wait();
  void run(const FakeKernel& kernel, const kernels::cuda::Arguments& arguments, std::uint64_t threads);

  static thread_local bool has_context;

  std::mutex mutex;
  std::map<std::uint64_t, std::size_t> allocations;
  std::set<FakeStream*> streams;
  std::unique_ptr<FakeStream> default_stream = std::make_unique<FakeStream>();
  std::map<std::string, std::pair<int, int>> failures;  // code, calls before it
  std::map<std::string, int> calls;
  std::vector<FakeLaunch> launches;
  std::atomic<int> fault{0};  // of a kernel: as on a device, seen at the next wait
};

FakeDevice& fake_device();

}  // namespace anello::testing
