#include "fake_cuda.h"

#include "fake_mapped_calls.h"
#include "fake_memory_calls.h"

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

constexpr int kInvalidImage = 200, kNotFound = 500;  // CUresult

// The names of driver.def, with what each does.
struct Calls : DeviceCalls, MemoryCalls, MappedCalls {
  static int move(const char* call, void* into, const void* from, std::size_t bytes, void* stream, FakeCopy copy) {
    if (const int code = fake_device().entered(call)) return code;
    if (into == nullptr || from == nullptr) return kInvalidValue;
    fake_device().put(
        stream,
        [=] {
      if (copy == FakeCopy::to_host) await_fetch();
      std::memmove(into, from, bytes);
        },
        copy);
    return 0;
  }
  static void await_fetch() {
    FakeDevice& device = fake_device();
    while (device.most_fetched >= 0 && device.fetched >= device.most_fetched)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    ++device.fetched;
  }
  // As on a device, pageable memory is read or written before the call returns.
  static int copy_to_device(std::uint64_t into, const void* from, std::size_t bytes, void* stream) {
    const int code = move("cuMemcpyHtoDAsync_v2", real(into, bytes), from, bytes, stream, FakeCopy::to_device);
    if (!fake_device().memory.is_pinned(from, bytes)) fake_device().stream_of(stream).wait();
    return code;
  }
  static int copy_rows(const kernels::cuda::RowsToDevice* rows, void* stream) {
    if (rows->from_pitch != rows->row_bytes || rows->into_pitch != rows->row_bytes) return kInvalidValue;
    const std::size_t bytes = rows->rows * rows->row_bytes;
    const int code =
        move("cuMemcpy2DAsync_v2", real(rows->into, bytes), rows->from, bytes, stream, FakeCopy::to_device);
    if (!fake_device().memory.is_pinned(rows->from, bytes)) fake_device().stream_of(stream).wait();
    return code;
  }
  static int copy_to_host(void* into, std::uint64_t from, std::size_t bytes, void* stream) {
    const int code = move("cuMemcpyDtoHAsync_v2", into, real(from, bytes), bytes, stream, FakeCopy::to_host);
    if (!fake_device().memory.is_pinned(into, bytes)) fake_device().stream_of(stream).wait();
    return code != 0 ? code : fake_device().fault.load();
  }
  static int copy_on_device(std::uint64_t into, std::uint64_t from, std::size_t bytes, void* stream) {
    return move("cuMemcpyDtoDAsync_v2", real(into, bytes), real(from, bytes), bytes, stream, FakeCopy::none);
  }
  static int fill(std::uint64_t into, unsigned char value, std::size_t bytes, void* stream) {
    if (const int code = fake_device().entered("cuMemsetD8Async")) return code;
    void* const there = real(into, bytes);
    if (there == nullptr) return kInvalidValue;
    fake_device().put(stream, [=] { std::memset(there, value, bytes); });
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
    fake_device().put(stream, [=] { __atomic_store_n(there, value, __ATOMIC_RELEASE); });
    return 0;
  }
  static int wait_for_value(void* stream, std::uint64_t address, std::uint32_t value, unsigned flags) {
    if (const int code = fake_device().entered("cuStreamWaitValue32_v2")) return code;
    const std::uint32_t* const there = word(address);
    if (there == nullptr) return kInvalidValue;
    FakeStream& its = fake_device().stream_of(stream);
    fake_device().put(stream, its.wait_for(there, value, flags != kernels::cuda::kWaitReached));
    return 0;
  }
  static int create_stream(void** stream, unsigned flags) {
    if (const int code = fake_device().entered("cuStreamCreate")) return code;
    using Order = FakeStream::Order;
    const auto made = std::make_shared<FakeStream>(
        fake_device().current(), flags == kernels::cuda::kNonBlocking ? Order::alone : Order::with_default);
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
  static int stream_context(void* stream, void** context) {
    *context = &fake_device().stream_of(stream).context();
    return fake_device().entered("cuStreamGetCtx");
  }
  static int stream_state(void* stream) {
    if (const int code = fake_device().entered("cuStreamQuery")) return code;
    constexpr int kNotReady = 600;
    return fake_device().fault != 0                    ? fake_device().fault.load()
           : fake_device().stream_of(stream).is_idle() ? 0
                                                       : kNotReady;
  }
  using Event = std::shared_ptr<FakeEvent>;  // work in streams outlives the handle
  static Event& event_of(void* event) { return *static_cast<Event*>(event); }
  static int create_event(void** event, unsigned) {
    *event = new Event(std::make_shared<FakeEvent>());
    return fake_device().entered("cuEventCreate");
  }
  static int destroy_event(void* event) {
    delete &event_of(event);
    return fake_device().entered("cuEventDestroy_v2");
  }
  static int record(void* event, void* stream) {
    if (const int code = fake_device().entered("cuEventRecord")) return code;
    const Event its = event_of(event);
    fake_device().put(stream, [its, time = ++its->recorded] {
      its->at = std::chrono::steady_clock::now();
      its->reached = time;
    });
    return 0;
  }
  static int wait_in_stream(void* stream, void* event, unsigned) {
    if (const int code = fake_device().entered("cuStreamWaitEvent")) return code;
    const Event its = event_of(event);
    FakeStream& waiting = fake_device().stream_of(stream);
    fake_device().put(stream, [its, &waiting, time = its->recorded.load()] {
      while (its->reached < time && !waiting.is_ending()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
    return 0;
  }
  static int wait_for_event(void*) { return synchronize(); }
  static int elapsed(float* milliseconds, void* begin, void* end) {
    const auto span = event_of(end)->at - event_of(begin)->at;
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
    for (const FakeWork& work : *static_cast<FakeGraph*>(executable)) fake_device().put(stream, work);
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
    const int image = fake_image(code);
    if (image < 0) return kInvalidImage;
    *library = const_cast<std::vector<FakeKernel>*>(&fake_kernels(image));
    return 0;
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
  static int function_of(void** function, void* kernel) {
    *function = kernel;
    return fake_device().entered("cuKernelGetFunction");
  }
  static int function_attribute(int* value, int, void* function) {
    *value = 64;
    return function != nullptr ? fake_device().entered("cuFuncGetAttribute") : kInvalidHandle;
  }
  static int launch(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                    unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    if (const int code = fake_device().entered("cuLaunchKernel")) return code;
    const bool flat =
        grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1 && shared_bytes == 0 && extra == nullptr;
    if (!flat || grid_x == 0 || block_x == 0 || block_x > kernels::cuda::kMaxThreads) return kInvalidValue;
    if (kernel == nullptr) return kInvalidHandle;
    const auto& one = *static_cast<const FakeKernel*>(kernel);
    if (one.move != nullptr) {
      const auto moved = *static_cast<const kernels::cuda::MoveArguments*>(parameters[0]);
      fake_device().put(stream, [=, &one, &its = fake_device().stream_of(stream)] {
        fake_device().move(its.context(), one, moved, std::uint64_t{grid_x} * block_x);
      });
      return 0;
    }
    const Arguments arguments = *static_cast<const Arguments*>(parameters[0]);
    {
      const std::lock_guard lock(fake_device().mutex);
      fake_device().launches.push_back({one.name, grid_x, block_x, stream, arguments});
    }
    fake_device().put(stream, [=, &one, &its = fake_device().stream_of(stream)] {
      while (fake_device().holds_kernels && !its.is_ending())
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      fake_device().run(its.context(), one, arguments, std::uint64_t{grid_x} * block_x);
    });
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

}  // namespace anello::testing
