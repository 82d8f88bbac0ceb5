// What goes wrong with a device says so, and leaves the reducer usable.
#include "support/fake_cuda.h"

#include "kernels/cuda/launch.h"
#include "kernels/reduce_cuda.h"
#include "support/catch.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace {
thread_local std::size_t allocations = 0;
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = ::operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace anello::kernels {
namespace {

using namespace anello::testing;
using Catch::Matchers::Contains;

// A sum of two vectors of float32, correct until a test spoils it.
struct Case {
  Case() {
    fake_driver().set_context(this);
    for (std::uint64_t& buffer : buffers) REQUIRE(fake_driver().allocate(&buffer, 1024) == 0);
    reduction = {ANELLO_FLOAT32, ANELLO_SUM, {at(0), at(1)}, {at(2)}, 256};
  }
  ~Case() {
    heal_cuda();
    for (const std::uint64_t buffer : buffers) fake_driver().release(buffer);
    fake_driver().set_context(nullptr);
    taken_launches();
  }
  void* at(int buffer) { return reinterpret_cast<void*>(buffers[buffer]); }
  Error run() { return reducer.reduce(reduction); }

  std::uint64_t buffers[3] = {};
  CudaReducer reducer{fake_driver(), fake_images()};
  CudaReduction reduction;
};

void check_error(const Error& error, anello_result_t code, const char* says) {
  CHECK(error.code() == code);
  CHECK_THAT(error.text(), Contains(says));
}

TEST_CASE("a call that cannot be is refused with its reason, and nothing is launched") {
  Case given;
  const CudaReduction good = given.reduction;
  const auto refused = [&](auto spoil, anello_result_t code, const char* says) {
    given.reduction = good;
    spoil(given.reduction);
    check_error(given.run(), code, says);
  };
  refused([](auto& r) { r.op = ANELLO_BOR; }, ANELLO_ERR_TYPE, "CUDA bor of float32: bor takes integers and bool");
  refused([](auto& r) { r.dtype = ANELLO_BYTE; }, ANELLO_ERR_TYPE, "sum takes");
  refused([](auto& r) { r.dtype = static_cast<anello_dtype_t>(22); }, ANELLO_ERR_TYPE,
          "no data type of Anello has the number 22");
  refused([](auto& r) { r.op = static_cast<anello_op_t>(13); }, ANELLO_ERR_TYPE,
          "no operation of Anello has the number 13");
  refused([](auto& r) { r.sources.clear(); }, ANELLO_ERR_ARGUMENT, "0 sources and 1 destinations; 1 to 8 of each");
  refused([](auto& r) { r.sources = {&r, &r, &r, &r, &r, &r, &r, &r, &r}; }, ANELLO_ERR_ARGUMENT, "9 sources");
  refused([](auto& r) { r.destinations.clear(); }, ANELLO_ERR_ARGUMENT, "0 destinations");
  refused([](auto& r) { r.sources[1] = nullptr; }, ANELLO_ERR_ARGUMENT, "source 1 is a null pointer");
  refused([](auto& r) { r.destinations[0] = static_cast<char*>(r.destinations[0]) + 2; }, ANELLO_ERR_ARGUMENT,
          "not a multiple of 4 bytes");
  refused([](auto& r) { r.op = ANELLO_AVG, r.ranks = 0; }, ANELLO_ERR_ARGUMENT, "an average over 0 ranks");
  refused([](auto& r) { r.factor = &r; }, ANELLO_ERR_ARGUMENT, "a factor goes with a sum of one source");
  const float two = 2;
  refused(
      [&](auto& r) {
    r.dtype = ANELLO_FLOAT16;
    r.sources = {r.sources[0]};
    r.factor = &two;
    r.sums_in = true;
      },
      ANELLO_ERR_ARGUMENT, "a factor goes with elements, not with sums");
  refused([](auto& r) { r.dtype = ANELLO_ELEMENT(4); }, ANELLO_ERR_TYPE, "no data type of Anello");
  CHECK(taken_launches().empty());
  given.reduction = good;
  CHECK(!given.run());
  CHECK(taken_launches().size() == 1);
}

TEST_CASE("planning a launch allocates nothing") {
  Case given;
  cuda::Launch launch;
  const std::size_t before = allocations;
  const bool failed = static_cast<bool>(cuda::plan(given.reduction, 132, launch));
  const std::size_t after = allocations;
  CHECK(!failed);
  CHECK(launch.blocks != 0);
  CHECK(after == before);
  const auto counted = std::make_unique<int>(1);
  CHECK(allocations == after + 1);
}

TEST_CASE("nothing to reduce launches nothing") {
  Case given;
  given.reduction.count = 0;
  given.reduction.sources = {nullptr, nullptr};
  CHECK(!given.run());
  CHECK(taken_launches().empty());
}

TEST_CASE("without a context of this thread the error says so") {
  Case given;
  fake_driver().set_context(nullptr);
  check_error(given.run(), ANELLO_ERR_STATE, "no CUDA context is current in this thread");
}

TEST_CASE("what the driver refuses comes back with the call, the code and its words, and passes") {
  const struct {
    const char* call;
    anello_result_t code;
    const char* says;
    int error;
  } cases[] = {
      {"cuLibraryLoadData", ANELLO_ERR_SYSTEM, "update the driver", 222},
      {"cuLibraryLoadData", ANELLO_ERR_SYSTEM, "compute capability", 209},
      {"cuLibraryGetKernel", ANELLO_ERR_SYSTEM, "kernel anello_float32_sum_16: cuLibraryGetKernel", 500},
      {"cuLaunchKernel", ANELLO_ERR_SYSTEM, "cuLaunchKernel: CUDA_ERROR_FAKED (719)", 719},
      {"cuLaunchKernel", ANELLO_ERR_RESOURCE, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", 2},
      {"cuDeviceGetAttribute", ANELLO_ERR_SYSTEM, "cuDeviceGetAttribute", 100},
  };
  for (const auto& one : cases) {
    INFO(one.call << " " << one.error);
    Case given;
    fail_cuda(one.call, one.error);
    check_error(given.run(), one.code, one.says);
    heal_cuda();
    CHECK(!given.run());
  }
}

TEST_CASE("a kernel is looked up once, an image loaded once, and prepare() does both ahead") {
  Case given;
  const int loads = calls_of("cuLibraryLoadData"), finds = calls_of("cuLibraryGetKernel");
  REQUIRE(!given.reducer.prepare(ANELLO_FLOAT32, ANELLO_SUM));
  CHECK(calls_of("cuLibraryLoadData") == loads + 1);  // it has float32's and those that copy
  CHECK(calls_of("cuLibraryGetKernel") ==
        finds + 10);  // sum and, for factors, prod by 16, 8 and 4; copies by 16, 8, 4 and 1
  CHECK(!given.run());
  CHECK(!given.run());
  CHECK(calls_of("cuLibraryLoadData") == loads + 1);
  CHECK(calls_of("cuLibraryGetKernel") == finds + 10);
  fail_cuda("cuLibraryGetKernel", 500);
  check_error(given.reducer.prepare(ANELLO_FLOAT64, ANELLO_SUM), ANELLO_ERR_SYSTEM, "anello_float64_sum_16");
}

TEST_CASE("a launch does not wait for the stream") {
  Case given;
  void* stream = nullptr;
  REQUIRE(fake_driver().create_stream(&stream, 0) == 0);
  // Captured, nothing runs until the graph does.
  const float ones[] = {1, 1};
  std::memcpy(given.at(0), ones, sizeof ones);
  std::memcpy(given.at(1), ones, sizeof ones);
  std::memset(given.at(2), 0, sizeof ones);
  given.reduction.count = 2;
  given.reduction.stream = stream;
  REQUIRE(fake_driver().begin_capture(stream, 0) == 0);
  REQUIRE(!given.run());
  given.reduction.sources.clear();  // not needed any more
  void *graph = nullptr, *executable = nullptr;
  REQUIRE(fake_driver().end_capture(stream, &graph) == 0);
  CHECK(*static_cast<float*>(given.at(2)) == 0);
  REQUIRE(fake_driver().instantiate(&executable, graph, 0) == 0);
  REQUIRE(fake_driver().launch_graph(executable, stream) == 0);
  REQUIRE(fake_driver().wait_for_stream(stream) == 0);
  CHECK(*static_cast<float*>(given.at(2)) == 2);
  fake_driver().destroy_executable(executable);
  fake_driver().destroy_graph(graph);
  fake_driver().destroy_stream(stream);
}

TEST_CASE("the fake device finds memory that no allocation covers") {
  Case given;
  given.reduction.count = 257;
  REQUIRE(!given.run());
  CHECK(fake_driver().wait_for_stream(nullptr) == 700);
}

void* nothing(void*, const char*) { return nullptr; }
int some_function() { return 0; }
void* all_but_libraries(void*, const char* name) {
  return std::strncmp(name, "cuLibrary", 9) == 0 ? nullptr : reinterpret_cast<void*>(&some_function);
}

std::string thrown(void* (*find)(void*, const char*)) {
  try {
    cuda::bind(find, nullptr);
  } catch (const Error& error) {
    return error.text();
  }
  return "nothing was thrown";
}

TEST_CASE("a driver without a function that is needed is too old, by the function's name") {
  CHECK_THAT(thrown(nothing), Contains("too old: libcuda.so.1 has no cuInit, and CUDA 12.0 is needed"));
  CHECK_THAT(thrown(all_but_libraries), Contains("has no cuLibraryLoadData"));
}

TEST_CASE("a machine without a driver says so, every time") {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      cuda::driver();
      WARN("SKIPPED: this machine has a CUDA driver");
      return;
    } catch (const Error& error) {
      check_error(error, ANELLO_ERR_SYSTEM, "no CUDA driver: libcuda.so.1");
    }
  }
}

}  // namespace
}  // namespace anello::kernels
