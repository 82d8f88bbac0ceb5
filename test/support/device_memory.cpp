#include "support/device_memory.h"

#include "kernels/cuda/driver.h"

#include <cstdint>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace anello::test {
namespace {

void need(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": " + std::to_string(code));
}

thread_local int device_of_thread = 0;

// With the primary context of the thread's device current.
const kernels::cuda::Driver& driver() {
  static const kernels::cuda::Driver& opened = kernels::cuda::driver();
  thread_local int current = -1;
  if (current != device_of_thread) {
    void* primary = nullptr;
    need(opened.retain_context(&primary, device_of_thread), "cuDevicePrimaryCtxRetain");
    need(opened.set_context(primary), "cuCtxSetCurrent");
    current = device_of_thread;
  }
  return opened;
}

void* find_in_driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

// A function that the fake driver has besides the driver's own.
template <class Function>
Function* of_fake(const char* name) {
  auto* const found = reinterpret_cast<Function*>(find_in_driver(name));
  if (found == nullptr) throw std::runtime_error(std::string(name) + " is the fake driver's alone");
  return found;
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

void use_device(int number) { device_of_thread = number; }

void* device_allocate(std::size_t bytes) {
  std::uint64_t address = 0;
  need(driver().allocate(&address, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(address);
}

void device_free(void* at) { need(driver().release(number(at)), "cuMemFree"); }

MappedMemory::MappedMemory(int pieces, bool can_be_passed) : pieces_(pieces), can_be_passed_(can_be_passed) {
  need(driver().reserve_addresses(&at_, bytes(), 0, 0, 0), "cuMemAddressReserve");
  for (int piece = 0; piece < pieces; ++piece) map(piece);
}

void MappedMemory::map(int piece) {
  kernels::cuda::MemoryProperties properties;
  properties.handle_types = can_be_passed_ ? kernels::cuda::kDescriptor : 0;
  properties.place.device = device_of_thread;
  std::uint64_t handle = 0;
  const std::uint64_t place = at_ + std::uint64_t(piece) * kPiece;
  need(driver().make_memory(&handle, kPiece, &properties, 0), "cuMemCreate");
  need(driver().map_memory(place, kPiece, 0, handle, 0), "cuMemMap");
  need(driver().release_handle(handle), "cuMemRelease");
  kernels::cuda::MemoryAccess access;
  access.place.device = device_of_thread;
  need(driver().allow_access(place, kPiece, &access, 1), "cuMemSetAccess");
}

void MappedMemory::replace(int piece) {
  need(driver().unmap_memory(at_ + std::uint64_t(piece) * kPiece, kPiece), "cuMemUnmap");
  map(piece);
}

MappedMemory::~MappedMemory() {
  driver().unmap_memory(at_, bytes());
  driver().free_addresses(at_, bytes());
}

void copy_to_device(void* into, const void* from, std::size_t bytes) {
  need(driver().copy_to_device(number(into), from, bytes, nullptr), "cuMemcpyHtoDAsync");
  need(driver().wait_for_stream(nullptr), "cuStreamSynchronize");
}

void copy_to_host(void* into, const void* from, std::size_t bytes) {
  need(driver().copy_to_host(into, number(from), bytes, nullptr), "cuMemcpyDtoHAsync");
  need(driver().wait_for_stream(nullptr), "cuStreamSynchronize");
}

void* make_stream() {
  void* stream = nullptr;
  need(driver().create_stream(&stream, kernels::cuda::kNonBlocking), "cuStreamCreate");
  return stream;
}

void destroy_stream(void* stream) { need(driver().destroy_stream(stream), "cuStreamDestroy"); }

void wait_for_stream(void* stream) { need(driver().wait_for_stream(stream), "cuStreamSynchronize"); }

bool is_idle(void* stream) { return driver().stream_state(stream) == 0; }

void copy_on_device(void* into, const void* from, std::size_t bytes, void* stream) {
  need(driver().copy_on_device(number(into), number(from), bytes, stream), "cuMemcpyDtoDAsync");
}

void begin_capture(void* stream) {
  constexpr int kThreadLocal = 1;
  need(driver().begin_capture(stream, kThreadLocal), "cuStreamBeginCapture");
}

void* end_capture(void* stream) {
  void* graph = nullptr;
  void* executable = nullptr;
  need(driver().end_capture(stream, &graph), "cuStreamEndCapture");
  need(driver().instantiate(&executable, graph, 0), "cuGraphInstantiate");
  need(driver().destroy_graph(graph), "cuGraphDestroy");
  return executable;
}

void replay(void* graph, void* stream) { need(driver().launch_graph(graph, stream), "cuGraphLaunch"); }

void destroy_graph(void* graph) { need(driver().destroy_executable(graph), "cuGraphExecDestroy"); }

bool is_fake_device() { return find_in_driver("fake_cuda_hold") != nullptr; }

void fail_device_call(const char* call, int code, int after) {
  of_fake<void(const char*, int, int)>("fake_cuda_fail")(call, code, after);
}

void hold_device(bool hold) { of_fake<void(int)>("fake_cuda_hold")(hold ? 1 : 0); }

void hold_kernels(bool hold) { of_fake<void(int)>("fake_cuda_hold_kernels")(hold ? 1 : 0); }

void hold_fetches(int after) { of_fake<void(int)>("fake_cuda_hold_fetches")(after); }

void give_handles(bool give) { of_fake<void(int)>("fake_cuda_give_handles")(give ? 1 : 0); }

void shift_allocations(int bytes) { of_fake<void(int)>("fake_cuda_shift")(bytes); }

void set_device_attribute(int attribute, int value) {
  of_fake<void(int, int)>("fake_cuda_attribute")(attribute, value);
}

int device_opened() { return of_fake<int()>("fake_cuda_opened")(); }

int device_calls(const char* call) { return of_fake<int(const char*)>("fake_cuda_calls")(call); }

}  // namespace anello::test
