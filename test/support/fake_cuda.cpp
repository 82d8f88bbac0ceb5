#include "fake_cuda.h"

#include "fake_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace anello::testing {

// One for each program part that fake_kernels.cpp makes.
#define ANELLO_IMAGE(index) const std::vector<FakeKernel>& fake_kernels_##index();
ANELLO_IMAGE(0)
ANELLO_IMAGE(1)
ANELLO_IMAGE(2)
ANELLO_IMAGE(3)
ANELLO_IMAGE(4)
#undef ANELLO_IMAGE

const std::vector<FakeKernel>& fake_kernels(int image) {
  static_assert(kernels::cuda::kImages == 5);
  constexpr const std::vector<FakeKernel>& (*kParts[])() = {fake_kernels_0, fake_kernels_1, fake_kernels_2,
                                                            fake_kernels_3, fake_kernels_4};
  return kParts[image]();
}

namespace {

using kernels::cuda::Arguments;

// CUresult
constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kInvalidContext = 201, kInvalidHandle = 400,
              kNotFound = 500, kIllegalAddress = 700;
constexpr std::size_t kTotal = std::size_t{1} << 30;

// The names of driver.def, with what each does.
struct Calls {
  // A driver takes its time to come, on which device/space.h relies.
  static int init(unsigned) {
    static const bool waited = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return true;
    }();
    static_cast<void>(waited);
    return fake_device().entered("cuInit");
  }
  static int driver_version(int* version) {
    *version = 13000;
    return fake_device().entered("cuDriverGetVersion");
  }
  static int error_name(int code, const char** name) {
    *name = code == kOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                      : "CUDA_ERROR_FAKED";
    return fake_device().entered("cuGetErrorName");
  }
  static int error_text(int code, const char** text) {
    *text = code == kOutOfMemory ? "out of memory" : "it was told to fail, or misused";
    return fake_device().entered("cuGetErrorString");
  }
  static int device_count(int* count) {
    *count = 1;
    return fake_device().entered("cuDeviceGetCount");
  }
  static int device(int* number, int ordinal) {
    *number = ordinal;
    return ordinal == 0 ? fake_device().entered("cuDeviceGet") : kInvalidValue;
  }
  static int device_name(char* name, int bytes, int) {
    std::strncpy(name, "fake device", static_cast<std::size_t>(bytes));
    return fake_device().entered("cuDeviceGetName");
  }
  static int device_uuid(unsigned char* uuid, int) {
    std::memset(uuid, 0xfa, 16);
    return fake_device().entered("cuDeviceGetUuid_v2");
  }
  static int device_attribute(int* value, int attribute, int) {
    static const std::map<int, int> values = {{kernels::cuda::kMultiprocessors, kFakeMultiprocessors},
                                              {kernels::cuda::kCapabilityMajor, 9},
                                              {102, 1},
                                              {103, 1},
                                              {122, 1},
                                              {125, 1}};  // what gpu-verify asks a device to have
    const auto found = values.find(attribute);
    *value = found == values.end() ? 0 : found->second;
    return fake_device().entered("cuDeviceGetAttribute");
  }
  static int retain_context(void** context, int) {
    *context = &fake_device();
    return fake_device().entered("cuDevicePrimaryCtxRetain");
  }
  static int release_context(int) { return fake_device().entered("cuDevicePrimaryCtxRelease_v2"); }
  static int set_context(void* context) {
    FakeDevice::contexts.clear();
    if (context != nullptr) FakeDevice::contexts.push_back(context);
    return fake_device().entered("cuCtxSetCurrent");
  }
  static int push_context(void* context) {
    if (context == nullptr) return kInvalidContext;
    if (const int code = fake_device().entered("cuCtxPushCurrent_v2")) return code;
    FakeDevice::contexts.push_back(context);
    return 0;
  }
  static int pop_context(void** context) {
    if (FakeDevice::contexts.empty()) return kInvalidContext;
    *context = FakeDevice::contexts.back();
    FakeDevice::contexts.pop_back();
    return fake_device().entered("cuCtxPopCurrent_v2");
  }
  static int context_device(int* number) {
    *number = 0;
    return !FakeDevice::contexts.empty() ? fake_device().entered("cuCtxGetDevice") : kInvalidContext;
  }
  static int synchronize() {
    if (const int code = fake_device().entered("cuCtxSynchronize")) return code;
    fake_device().wait();
    return fake_device().fault.load();
  }
  static int memory_info(std::size_t* free, std::size_t* total) {
    *total = kTotal;
    *free = kTotal - allocated_bytes();
    return fake_device().entered("cuMemGetInfo_v2");
  }
  static int allocate(std::uint64_t* address, std::size_t bytes) {
    if (const int code = fake_device().entered("cuMemAlloc_v2")) return code;
    if (bytes == 0) return kInvalidValue;
    if (allocated_bytes() + bytes > kTotal) return kOutOfMemory;
    *address = fake_device().memory.allocate(bytes);
    return *address != 0 ? 0 : kOutOfMemory;
  }
  static int release(std::uint64_t address) {
    if (const int code = fake_device().entered("cuMemFree_v2")) return code;
    fake_device().wait();  // as a device does
    return fake_device().memory.release(address) ? 0 : kInvalidValue;
  }
  // An address that the driver does not know has the memory type 0.
  static int pointer_attributes(unsigned count, int* attributes, void** data, std::uint64_t address) {
    if (const int code = fake_device().entered("cuPointerGetAttributes")) return code;
    const FakeMemory::Range range = fake_device().memory.find(address);
    const bool pinned = fake_device().memory.is_pinned(at(address), 1);
    for (unsigned i = 0; i < count; ++i) {
      switch (attributes[i]) {
        case kernels::cuda::kMemoryType:
          *static_cast<unsigned*>(data[i]) = range.start != 0 ? kernels::cuda::kDeviceMemory : pinned ? 1 : 0;
          break;
        case kernels::cuda::kIsManaged: *static_cast<unsigned*>(data[i]) = 0; break;
        case kernels::cuda::kDeviceOrdinal: *static_cast<int*>(data[i]) = range.start != 0 || pinned ? 0 : -2; break;
        case kernels::cuda::kRangeStart: *static_cast<std::uint64_t*>(data[i]) = range.start; break;
        case kernels::cuda::kRangeSize: *static_cast<std::size_t*>(data[i]) = range.bytes; break;
        default: return kInvalidValue;
      }
    }
    return 0;
  }
  static int register_host(void* address, std::size_t bytes, unsigned) {
    if (const int code = fake_device().entered("cuMemHostRegister_v2")) return code;
    return fake_device().memory.pin(address, bytes) ? 0 : kInvalidValue;
  }
  static int unregister_host(void* address) {
    if (const int code = fake_device().entered("cuMemHostUnregister")) return code;
    fake_device().wait();
    return fake_device().memory.unpin(address) ? 0 : kInvalidValue;
  }
  static int device_address(std::uint64_t* address, void* host, unsigned) {
    *address = reinterpret_cast<std::uint64_t>(host);
    if (!fake_device().memory.is_pinned(host, 1)) return kInvalidValue;
    return fake_device().entered("cuMemHostGetDevicePointer_v2");
  }
  static int allocate_pinned(void** address, std::size_t bytes, unsigned) {
    *address = std::malloc(bytes);
    fake_device().memory.pin(*address, bytes);
    return fake_device().entered("cuMemHostAlloc");
  }
  static int release_pinned(void* address) {
    fake_device().memory.unpin(address);
    std::free(address);
    return fake_device().entered("cuMemFreeHost");
  }
  static int move(const char* call, void* into, const void* from, std::size_t bytes, void* stream) {
    if (const int code = fake_device().entered(call)) return code;
    if (into == nullptr || from == nullptr) return kInvalidValue;
    fake_device().stream_of(stream).put([=] { std::memmove(into, from, bytes); });
    return 0;
  }
  static void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }
  static void* real(std::uint64_t address, std::size_t bytes) { return fake_device().memory.real(at(address), bytes); }
  // As on a device, pageable memory is read or written before the call returns.
  static int copy_to_device(std::uint64_t into, const void* from, std::size_t bytes, void* stream) {
    const int code = move("cuMemcpyHtoDAsync_v2", real(into, bytes), from, bytes, stream);
    if (!fake_device().memory.is_pinned(from, bytes)) fake_device().stream_of(stream).wait();
    return code;
  }
  static int copy_to_host(void* into, std::uint64_t from, std::size_t bytes, void* stream) {
    const int code = move("cuMemcpyDtoHAsync_v2", into, real(from, bytes), bytes, stream);
    if (!fake_device().memory.is_pinned(into, bytes)) fake_device().stream_of(stream).wait();
    return code != 0 ? code : fake_device().fault.load();
  }
  static int copy_on_device(std::uint64_t into, std::uint64_t from, std::size_t bytes, void* stream) {
    return move("cuMemcpyDtoDAsync_v2", real(into, bytes), real(from, bytes), bytes, stream);
  }
  static int fill(std::uint64_t into, unsigned char value, std::size_t bytes, void* stream) {
    if (const int code = fake_device().entered("cuMemsetD8Async")) return code;
    void* const there = real(into, bytes);
    if (there == nullptr) return kInvalidValue;
    fake_device().stream_of(stream).put([=] { std::memset(there, value, bytes); });
    return 0;
  }
  // Of pinned host memory, or the device's own.
  static std::uint32_t* word(std::uint64_t address) {
    if (fake_device().memory.is_pinned(at(address), 4)) return static_cast<std::uint32_t*>(at(address));
    return static_cast<std::uint32_t*>(real(address, 4));
  }
  static int write_value(void* stream, std::uint64_t address, std::uint32_t value, unsigned) {
    if (const int code = fake_device().entered("cuStreamWriteValue32_v2")) return code;
    std::uint32_t* const there = word(address);
    if (there == nullptr) return kInvalidValue;
    fake_device().stream_of(stream).put([=] { __atomic_store_n(there, value, __ATOMIC_RELEASE); });
    return 0;
  }
  static int wait_for_value(void* stream, std::uint64_t address, std::uint32_t value, unsigned flags) {
    if (const int code = fake_device().entered("cuStreamWaitValue32_v2")) return code;
    const std::uint32_t* const there = word(address);
    if (there == nullptr) return kInvalidValue;
    fake_device().stream_of(stream).put_wait(there, value, flags != kernels::cuda::kWaitReached);
    return 0;
  }
  static int create_stream(void** stream, unsigned) {
    if (const int code = fake_device().entered("cuStreamCreate")) return code;
    const auto made = std::make_shared<FakeStream>();
    const std::lock_guard lock(fake_device().streams_mutex);
    fake_device().streams.insert(made);
    *stream = made.get();
    return 0;
  }
  static int destroy_stream(void* stream) {
    std::shared_ptr<FakeStream> gone;  // ends its thread outside the lock
    {
      const std::lock_guard lock(fake_device().streams_mutex);
      auto& all = fake_device().streams;
      const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.get() == stream; });
      if (found == all.end()) return kInvalidHandle;
      gone = *found;
      all.erase(found);
    }
    return fake_device().entered("cuStreamDestroy_v2");
  }
  static int wait_for_stream(void* stream) {
    if (const int code = fake_device().entered("cuStreamSynchronize")) return code;
    fake_device().stream_of(stream).wait();
    return fake_device().fault.load();
  }
  static int stream_context(void*, void** context) {
    *context = &fake_device();
    return fake_device().entered("cuStreamGetCtx");
  }
  static int stream_state(void* stream) {
    if (const int code = fake_device().entered("cuStreamQuery")) return code;
    constexpr int kNotReady = 600;
    return fake_device().fault != 0                    ? fake_device().fault.load()
           : fake_device().stream_of(stream).is_idle() ? 0
                                                       : kNotReady;
  }
  static int create_event(void** event, unsigned) {
    *event = new FakeEvent;
    return fake_device().entered("cuEventCreate");
  }
  static int destroy_event(void* event) {
    delete static_cast<FakeEvent*>(event);
    return fake_device().entered("cuEventDestroy_v2");
  }
  static int record(void* event, void* stream) {
    fake_device().stream_of(stream).put([=] { static_cast<FakeEvent*>(event)->at = std::chrono::steady_clock::now(); });
    return fake_device().entered("cuEventRecord");
  }
  static int wait_for_event(void*) { return synchronize(); }
  static int elapsed(float* milliseconds, void* begin, void* end) {
    const auto span = static_cast<FakeEvent*>(end)->at - static_cast<FakeEvent*>(begin)->at;
    *milliseconds = std::chrono::duration<float, std::milli>(span).count();
    return fake_device().entered("cuEventElapsedTime");
  }
  static int begin_capture(void* stream, int) {
    fake_device().stream_of(stream).begin_capture();
    return fake_device().entered("cuStreamBeginCapture_v2");
  }
  static int capture_status(void* stream, int* status) {
    *status = fake_device().stream_of(stream).is_capturing() ? 1 : 0;
    return fake_device().entered("cuStreamIsCapturing");
  }
  static int end_capture(void* stream, void** graph) {
    *graph = new FakeGraph(fake_device().stream_of(stream).end_capture());
    return fake_device().entered("cuStreamEndCapture");
  }
  static int instantiate(void** executable, void* graph, unsigned long long) {
    *executable = new FakeGraph(*static_cast<FakeGraph*>(graph));
    return fake_device().entered("cuGraphInstantiateWithFlags");
  }
  static int launch_graph(void* executable, void* stream) {
    for (const FakeWork& work : *static_cast<FakeGraph*>(executable)) fake_device().stream_of(stream).put(work);
    return fake_device().entered("cuGraphLaunch");
  }
  static int destroy_graph(void* graph) {
    delete static_cast<FakeGraph*>(graph);
    return fake_device().entered("cuGraphDestroy");
  }
  static int destroy_executable(void* executable) {
    delete static_cast<FakeGraph*>(executable);
    return fake_device().entered("cuGraphExecDestroy");
  }
  static int load_library(void** library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
    if (const int failed = fake_device().entered("cuLibraryLoadData")) return failed;
    for (int image = 0; image < kernels::cuda::kImages; ++image) {
      if (fake_images().images[image].start != code) continue;
      *library = const_cast<std::vector<FakeKernel>*>(&fake_kernels(image));
      return 0;
    }
    return kInvalidImage;
  }
  static int unload_library(void*) { return fake_device().entered("cuLibraryUnload"); }
  static int find_kernel(void** kernel, void* library, const char* name) {
    if (const int code = fake_device().entered("cuLibraryGetKernel")) return code;
    for (const FakeKernel& one : *static_cast<const std::vector<FakeKernel>*>(library)) {
      if (std::strcmp(one.name, name) != 0) continue;
      *kernel = const_cast<FakeKernel*>(&one);
      return 0;
    }
    return kNotFound;
  }
  static int launch(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                    unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    if (const int code = fake_device().entered("cuLaunchKernel")) return code;
    const bool flat =
        grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1 && shared_bytes == 0 && extra == nullptr;
    if (!flat || grid_x == 0 || block_x == 0 || block_x > kernels::cuda::kMaxThreads) return kInvalidValue;
    if (kernel == nullptr) return kInvalidHandle;
    const auto& one = *static_cast<const FakeKernel*>(kernel);
    const Arguments arguments = *static_cast<const Arguments*>(parameters[0]);
    {
      const std::lock_guard lock(fake_device().mutex);
      fake_device().launches.push_back({one.name, grid_x, block_x, stream, arguments});
    }
    fake_device().stream_of(stream).put(
        [=, &one] { fake_device().run(one, arguments, std::uint64_t{grid_x} * block_x); });
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
    for (int image = 0; image < kernels::cuda::kImages; ++image)
      made.images[image] = {names + image, names + image + 1};
    return made;
  }();
  return table;
}

}  // namespace anello::testing
