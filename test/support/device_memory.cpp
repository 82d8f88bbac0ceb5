#include "support/device_memory.h"

#include <cstdint>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace anello::test {
namespace {

struct Driver {
  int (*init)(unsigned);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*allocate)(std::uint64_t*, std::size_t);
  int (*free)(std::uint64_t);
  int (*to_device)(std::uint64_t, const void*, std::size_t, void*);
  int (*to_host)(void*, std::uint64_t, std::size_t, void*);
  int (*wait)(void*);
  int (*on_device)(std::uint64_t, std::uint64_t, std::size_t, void*);
  int (*create_stream)(void**, unsigned);
  int (*destroy_stream)(void*);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*launch_graph)(void*, void*);
  int (*destroy_graph)(void*);
  int (*destroy_executable)(void*);
  // Null of a real driver.
  void (*fail)(const char*, int, int);
  void (*hold)(int);
  int (*calls)(const char*);
  void* context = nullptr;
};

void need(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": " + std::to_string(code));
}

Driver open() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  Driver driver;
  const auto find = [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(dlsym(library, name));
    if (field == nullptr) throw std::runtime_error(std::string("no ") + name);
  };
  find(driver.init, "cuInit");
  find(driver.retain, "cuDevicePrimaryCtxRetain");
  find(driver.set_current, "cuCtxSetCurrent");
  find(driver.allocate, "cuMemAlloc_v2");
  find(driver.free, "cuMemFree_v2");
  find(driver.to_device, "cuMemcpyHtoDAsync_v2");
  find(driver.to_host, "cuMemcpyDtoHAsync_v2");
  find(driver.wait, "cuStreamSynchronize");
  find(driver.on_device, "cuMemcpyDtoDAsync_v2");
  find(driver.create_stream, "cuStreamCreate");
  find(driver.destroy_stream, "cuStreamDestroy_v2");
  find(driver.begin_capture, "cuStreamBeginCapture_v2");
  find(driver.end_capture, "cuStreamEndCapture");
  find(driver.instantiate, "cuGraphInstantiateWithFlags");
  find(driver.launch_graph, "cuGraphLaunch");
  find(driver.destroy_graph, "cuGraphDestroy");
  find(driver.destroy_executable, "cuGraphExecDestroy");
  driver.fail = reinterpret_cast<void (*)(const char*, int, int)>(dlsym(library, "fake_cuda_fail"));
  driver.hold = reinterpret_cast<void (*)(int)>(dlsym(library, "fake_cuda_hold"));
  driver.calls = reinterpret_cast<int (*)(const char*)>(dlsym(library, "fake_cuda_calls"));
  need(driver.init(0), "cuInit");
  need(driver.retain(&driver.context, 0), "cuDevicePrimaryCtxRetain");
  return driver;
}

const Driver& driver() {
  static const Driver opened = open();
  thread_local const bool current = [] {
    need(opened.set_current(opened.context), "cuCtxSetCurrent");
    return true;
  }();
  static_cast<void>(current);
  return opened;
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

void* device_allocate(std::size_t bytes) {
  std::uint64_t address = 0;
  need(driver().allocate(&address, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(address);
}

void device_free(void* at) { need(driver().free(number(at)), "cuMemFree"); }

void copy_to_device(void* into, const void* from, std::size_t bytes) {
  need(driver().to_device(number(into), from, bytes, nullptr), "cuMemcpyHtoDAsync");
  need(driver().wait(nullptr), "cuStreamSynchronize");
}

void copy_to_host(void* into, const void* from, std::size_t bytes) {
  need(driver().to_host(into, number(from), bytes, nullptr), "cuMemcpyDtoHAsync");
  need(driver().wait(nullptr), "cuStreamSynchronize");
}

void* make_stream() {
  constexpr unsigned kNonBlocking = 1;
  void* stream = nullptr;
  need(driver().create_stream(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

void destroy_stream(void* stream) { need(driver().destroy_stream(stream), "cuStreamDestroy"); }

void wait_for_stream(void* stream) { need(driver().wait(stream), "cuStreamSynchronize"); }

void copy_on_device(void* into, const void* from, std::size_t bytes, void* stream) {
  need(driver().on_device(number(into), number(from), bytes, stream), "cuMemcpyDtoDAsync");
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

void fail_device_call(const char* call, int code, int after) { driver().fail(call, code, after); }

void hold_device(bool hold) { driver().hold(hold ? 1 : 0); }

int device_calls(const char* call) { return driver().calls(call); }

}  // namespace anello::test
