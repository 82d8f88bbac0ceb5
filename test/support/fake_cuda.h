#pragma once
// A CUDA driver without a GPU. Host memory is device memory; each stream is a thread that works off its queue; kernels
// are the device's own text (kernels/cuda/body.h), compiled for the host and called once per thread of the grid. Memory
// that no allocation covers is an illegal address, and a load that is not aligned a fault, as on a device. Any call can
// be made to fail.
#include "kernels/cuda/arguments.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/image.h"

#include <cstddef>
#include <string>
#include <vector>

namespace anello::testing {

struct FakeKernel {
  const char* name;
  std::size_t element_bytes, sum_bytes, granule_bytes;
  void (*run)(const kernels::cuda::Arguments& arguments, std::uint64_t thread, std::uint64_t threads);
  // Of a kernel that moves, in place of run: from element_bytes to sum_bytes.
  void (*move)(const kernels::cuda::MoveArguments& arguments, std::uint64_t thread, std::uint64_t threads) = nullptr;
};
// Of one image, as list_kernels wrote them.
const std::vector<FakeKernel>& fake_kernels(int image);

// The calls. There is one device, since the table's functions know nothing else.
const kernels::cuda::Driver& fake_driver();
// Images that name themselves, for CudaReducer; and the number of an image, or -1.
const kernels::cuda::ImageTable& fake_images();
int fake_image(const void* code);

inline constexpr int kFakeMultiprocessors = 3;

// From now on this call ("cuLaunchKernel") returns the code, after so many that do not; 0 ends it.
void fail_cuda(const std::string& call, int code, int after = 0);
void heal_cuda();

struct FakeLaunch {
  std::string kernel;
  unsigned blocks, threads;
  void* stream;
  kernels::cuda::Arguments arguments;
};
// Since the last time it was asked.
std::vector<FakeLaunch> taken_launches();
// Times that the call was made.
int calls_of(const std::string& call);
std::size_t allocated_bytes();

}  // namespace anello::testing
