#include "fake_cuda.h"

#include "fake_stream.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

namespace anello::testing {

template <int image>
const std::vector<FakeKernel>& kernels_of();
template <>
const std::vector<FakeKernel>& kernels_of<0>();
template <>
const std::vector<FakeKernel>& kernels_of<1>();
template <>
const std::vector<FakeKernel>& kernels_of<2>();
template <>
const std::vector<FakeKernel>& kernels_of<3>();
template <>
const std::vector<FakeKernel>& kernels_of<4>();

const std::vector<FakeKernel>& fake_kernels(int image) {
  switch (image) {
    case 0: return kernels_of<0>();
    case 1: return kernels_of<1>();
    case 2: return kernels_of<2>();
    case 3: return kernels_of<3>();
    default: return kernels_of<4>();
  }
}

namespace {

using kernels::cuda::Arguments;

// CUresult
constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500,
              kIllegalAddress = 700;
constexpr std::size_t kTotal = std::size_t{1} << 30;
constexpr std::size_t kAlignment = 256;

struct Event {
  std::chrono::steady_clock::time_point at;
};
using Graph = std::vector<FakeWork>;

struct Device {
  std::mutex mutex;
  std::map<std::uint64_t, std::size_t> allocations;
  std::set<FakeStream*> streams;
  std::unique_ptr<FakeStream> default_stream = std::make_unique<FakeStream>();
  std::map<std::string, std::pair<int, int>> failures;  // code, calls before it
  std::map<std::string, int> calls;
  std::vector<FakeLaunch> launches;
  std::atomic<int> fault{0};  // of a kernel: as on a device, seen at the next wait
};
Device& device() {
  static Device one;
  return one;
}

thread_local bool has_context = false;

int entered(const char* call) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  ++d.calls[call];
  const auto found = d.failures.find(call);
  if (found == d.failures.end() || found->second.second-- > 0) return 0;
  return found->second.first;
}

FakeStream& stream_of(void* stream) {
  return stream == nullptr ? *device().default_stream : *static_cast<FakeStream*>(stream);
}

bool covered(const void* start, std::size_t bytes) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  const auto at = reinterpret_cast<std::uint64_t>(start);
  auto next = d.allocations.upper_bound(at);
  if (next == d.allocations.begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}

void run_kernel(const FakeKernel& kernel, const Arguments& arguments, std::uint64_t threads) {
  const std::size_t bytes = arguments.count * kernel.element_bytes;
  bool legal = true;
  for (int s = 0; s < arguments.source_count; ++s) legal = legal && covered(arguments.sources[s], bytes);
  for (int t = 0; t < arguments.destination_count; ++t) legal = legal && covered(arguments.destinations[t], bytes);
  if (!legal) {
    device().fault = kIllegalAddress;
    return;
  }
  for (std::uint64_t thread = 0; thread < threads; ++thread) kernel.run(arguments, thread, threads);
}

int waited() { return device().fault; }

// The names of driver.def, with what each does.
struct Calls {
  static int init(unsigned) { return entered("cuInit"); }
  static int driver_version(int* version) {
    *version = 13000;
    return entered("cuDriverGetVersion");
  }
  static int error_name(int code, const char** name) {
    *name = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : code == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKED";
    return entered("cuGetErrorName");
  }
  static int error_text(int code, const char** text) {
    *text = code == kOutOfMemory ? "out of memory" : "it was told to fail, or misused";
    return entered("cuGetErrorString");
  }
  static int device_count(int* count) {
    *count = 1;
    return entered("cuDeviceGetCount");
  }
  static int device(int* number, int ordinal) {
    *number = ordinal;
    return ordinal == 0 ? entered("cuDeviceGet") : kInvalidValue;
  }
  static int device_name(char* name, int bytes, int) {
    std::strncpy(name, "fake device", static_cast<std::size_t>(bytes));
    return entered("cuDeviceGetName");
  }
  static int device_uuid(unsigned char* uuid, int) {
    std::memset(uuid, 0xfa, 16);
    return entered("cuDeviceGetUuid_v2");
  }
  static int device_attribute(int* value, int attribute, int) {
    static const std::map<int, int> values = {{kernels::cuda::kMultiprocessors, kFakeMultiprocessors},
                                              {kernels::cuda::kCapabilityMajor, 9},
                                              {102, 1}, {103, 1}, {122, 1}, {125, 1}};  // what gpu-verify asks a device to have
    const auto found = values.find(attribute);
    *value = found == values.end() ? 0 : found->second;
    return entered("cuDeviceGetAttribute");
  }
  static int retain_context(void** context, int) {
    *context = &testing::device();
    return entered("cuDevicePrimaryCtxRetain");
  }
  static int release_context(int) { return entered("cuDevicePrimaryCtxRelease_v2"); }
  static int set_context(void* context) {
    has_context = context != nullptr;
    return entered("cuCtxSetCurrent");
  }
  static int context_device(int* number) {
    *number = 0;
    return has_context ? entered("cuCtxGetDevice") : kInvalidContext;
  }
  static int synchronize() {
    if (const int code = entered("cuCtxSynchronize")) return code;
    testing::device().default_stream->wait();
    for (FakeStream* const stream : testing::device().streams) stream->wait();
    return waited();
  }
  static int memory_info(std::size_t* free, std::size_t* total) {
    *total = kTotal;
    *free = kTotal - allocated_bytes();
    return entered("cuMemGetInfo_v2");
  }
  static int allocate(std::uint64_t* address, std::size_t bytes) {
    if (const int code = entered("cuMemAlloc_v2")) return code;
    if (bytes == 0) return kInvalidValue;
    if (allocated_bytes() + bytes > kTotal) return kOutOfMemory;
    *address = reinterpret_cast<std::uint64_t>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    const std::lock_guard lock(testing::device().mutex);
    testing::device().allocations[*address] = bytes;
    return 0;
  }
  static int release(std::uint64_t address) {
    if (const int code = entered("cuMemFree_v2")) return code;
    const std::lock_guard lock(testing::device().mutex);
    if (testing::device().allocations.erase(address) == 0) return kInvalidValue;
    std::free(reinterpret_cast<void*>(address));
    return 0;
  }
  static int allocate_pinned(void** address, std::size_t bytes, unsigned) {
    *address = std::malloc(bytes);
    return entered("cuMemHostAlloc");
  }
  static int release_pinned(void* address) {
    std::free(address);
    return entered("cuMemFreeHost");
  }
  static int move(const char* call, void* into, const void* from, std::size_t bytes, void* stream, bool legal) {
    if (const int code = entered(call)) return code;
    if (!legal) return kInvalidValue;
    stream_of(stream).put([=] { std::memmove(into, from, bytes); });
    return 0;
  }
  static void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }
  // As on a device, pageable memory is read before the call returns.
  static int copy_to_device(std::uint64_t into, const void* from, std::size_t bytes, void* stream) {
    const int code = move("cuMemcpyHtoDAsync_v2", at(into), from, bytes, stream, covered(at(into), bytes));
    stream_of(stream).wait();
    return code;
  }
  static int copy_to_host(void* into, std::uint64_t from, std::size_t bytes, void* stream) {
    const int code = move("cuMemcpyDtoHAsync_v2", into, at(from), bytes, stream, covered(at(from), bytes));
    stream_of(stream).wait();
    return code != 0 ? code : waited();
  }
  static int copy_on_device(std::uint64_t into, std::uint64_t from, std::size_t bytes, void* stream) {
    return move("cuMemcpyDtoDAsync_v2", at(into), at(from), bytes, stream, covered(at(into), bytes) && covered(at(from), bytes));
  }
  static int fill(std::uint64_t into, unsigned char value, std::size_t bytes, void* stream) {
    if (const int code = entered("cuMemsetD8Async")) return code;
    if (!covered(at(into), bytes)) return kInvalidValue;
    stream_of(stream).put([=] { std::memset(at(into), value, bytes); });
    return 0;
  }
  static int create_stream(void** stream, unsigned) {
    if (const int code = entered("cuStreamCreate")) return code;
    auto* const made = new FakeStream;
    testing::device().streams.insert(made);
    *stream = made;
    return 0;
  }
  static int destroy_stream(void* stream) {
    testing::device().streams.erase(static_cast<FakeStream*>(stream));
    delete static_cast<FakeStream*>(stream);
    return entered("cuStreamDestroy_v2");
  }
  static int wait_for_stream(void* stream) {
    if (const int code = entered("cuStreamSynchronize")) return code;
    stream_of(stream).wait();
    return waited();
  }
  static int create_event(void** event, unsigned) {
    *event = new Event;
    return entered("cuEventCreate");
  }
  static int destroy_event(void* event) {
    delete static_cast<Event*>(event);
    return entered("cuEventDestroy_v2");
  }
  static int record(void* event, void* stream) {
    stream_of(stream).put([=] { static_cast<Event*>(event)->at = std::chrono::steady_clock::now(); });
    return entered("cuEventRecord");
  }
  static int wait_for_event(void*) { return synchronize(); }
  static int elapsed(float* milliseconds, void* begin, void* end) {
    const auto span = static_cast<Event*>(end)->at - static_cast<Event*>(begin)->at;
    *milliseconds = std::chrono::duration<float, std::milli>(span).count();
    return entered("cuEventElapsedTime");
  }
  static int begin_capture(void* stream, int) {
    stream_of(stream).begin_capture();
    return entered("cuStreamBeginCapture_v2");
  }
  static int end_capture(void* stream, void** graph) {
    *graph = new Graph(stream_of(stream).end_capture());
    return entered("cuStreamEndCapture");
  }
  static int instantiate(void** executable, void* graph, unsigned long long) {
    *executable = new Graph(*static_cast<Graph*>(graph));
    return entered("cuGraphInstantiateWithFlags");
  }
  static int launch_graph(void* executable, void* stream) {
    for (const FakeWork& work : *static_cast<Graph*>(executable)) stream_of(stream).put(work);
    return entered("cuGraphLaunch");
  }
  static int destroy_graph(void* graph) {
    delete static_cast<Graph*>(graph);
    return entered("cuGraphDestroy");
  }
  static int destroy_executable(void* executable) {
    delete static_cast<Graph*>(executable);
    return entered("cuGraphExecDestroy");
  }
  static int load_library(void** library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
    if (const int failed = entered("cuLibraryLoadData")) return failed;
    for (int image = 0; image < kernels::cuda::kImages; ++image) {
      if (fake_images().images[image].start != code) continue;
      *library = const_cast<std::vector<FakeKernel>*>(&fake_kernels(image));
      return 0;
    }
    return kInvalidImage;
  }
  static int unload_library(void*) { return entered("cuLibraryUnload"); }
  static int find_kernel(void** kernel, void* library, const char* name) {
    if (const int code = entered("cuLibraryGetKernel")) return code;
    for (const FakeKernel& one : *static_cast<const std::vector<FakeKernel>*>(library)) {
      if (std::strcmp(one.name, name) != 0) continue;
      *kernel = const_cast<FakeKernel*>(&one);
      return 0;
    }
    return kNotFound;
  }
  static int launch(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                    unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    if (const int code = entered("cuLaunchKernel")) return code;
    const bool flat = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1 && shared_bytes == 0 && extra == nullptr;
    if (!flat || grid_x == 0 || block_x == 0 || block_x > kernels::cuda::kMaxThreads) return kInvalidValue;
    if (kernel == nullptr) return kInvalidHandle;
    const auto& one = *static_cast<const FakeKernel*>(kernel);
    const Arguments arguments = *static_cast<const Arguments*>(parameters[0]);
    {
      const std::lock_guard lock(testing::device().mutex);
      testing::device().launches.push_back({one.name, grid_x, block_x, stream, arguments});
    }
    stream_of(stream).put([=, &one] { run_kernel(one, arguments, std::uint64_t{grid_x} * block_x); });
    return 0;
  }
};

}  // namespace

const kernels::cuda::Driver& fake_driver() {
  static const kernels::cuda::Driver driver = [] {
    kernels::cuda::Driver made;
#define ANELLO_CUDA_CALL(field, name, parameters) made.field = &Calls::field;
#include "kernels/cuda/driver.def"
#undef ANELLO_CUDA_CALL
    return made;
  }();
  return driver;
}

const kernels::cuda::ImageTable& fake_images() {
  static const unsigned char names[kernels::cuda::kImages] = {};
  static const kernels::cuda::ImageTable table = [] {
    kernels::cuda::ImageTable made{kernels::cuda::kImageVersion, 0, kernels::cuda::kImages, {}};
    for (int image = 0; image < kernels::cuda::kImages; ++image) made.images[image] = {names + image, names + image + 1};
    return made;
  }();
  return table;
}

void fail_cuda(const std::string& call, int code, int after) {
  const std::lock_guard lock(device().mutex);
  if (code == 0) {
    device().failures.erase(call);
  } else {
    device().failures[call] = {code, after};
  }
}

void heal_cuda() {
  const std::lock_guard lock(device().mutex);
  device().failures.clear();
  device().fault = 0;
}

std::vector<FakeLaunch> taken_launches() {
  const std::lock_guard lock(device().mutex);
  return std::exchange(device().launches, {});
}

int calls_of(const std::string& call) {
  const std::lock_guard lock(device().mutex);
  return device().calls[call];
}

std::size_t allocated_bytes() {
  const std::lock_guard lock(device().mutex);
  std::size_t sum = 0;
  for (const auto& [address, bytes] : device().allocations) sum += bytes;
  return sum;
}

}  // namespace anello::testing
