#include "kernels/reduce_cuda.h"

#include "base/text.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/runs_as.h"

#include <bit>

namespace anello::kernels {
namespace {

constexpr std::size_t kGranuleCount = std::size(cuda::kGranules);

std::size_t slot(anello_dtype_t dtype, anello_op_t op, cuda::Form form, int granule) {
  const std::size_t pairs = std::size_t{kDtypes} * kOps;
  const std::size_t one = static_cast<std::size_t>(dtype) * kOps + static_cast<std::size_t>(op);
  const std::size_t pair = form == cuda::Form::copy ? 2 * pairs : form == cuda::Form::wide ? pairs + one : one;
  return pair * kGranuleCount + static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(granule)));
}

}  // namespace

CudaReducer::~CudaReducer() {
  for (void* const library : libraries_) {
    if (library != nullptr) driver_.unload_library(library);  // a driver that is shutting down may refuse this
  }
}

Error CudaReducer::reduce(const CudaReduction& reduction) {
  int multiprocessor_count = 0;
  cuda::Launch launch;
  if (Error error = multiprocessors(multiprocessor_count)) return error;
  if (Error error = cuda::plan(reduction, multiprocessor_count, launch)) return error;
  if (launch.blocks == 0) return {};
  void* kernel = nullptr;
  if (Error error = find(launch.dtype, launch.op, launch.form, launch.granule, kernel)) return error;
  void* parameters[] = {&launch.arguments};
  const int code =
      driver_.launch(kernel, launch.blocks, 1, 1, launch.threads, 1, 1, 0, reduction.stream, parameters, nullptr);
  return code == 0 ? Error() : cuda::driver_error(driver_, "cuLaunchKernel", code);
}

Error CudaReducer::prepare(anello_dtype_t dtype, anello_op_t op) {
  using cuda::Form;
  const auto all = [&](anello_dtype_t type, anello_op_t operation, Form form) -> Error {
    void* kernel = nullptr;
    for (const int granule : cuda::kGranules) {
      if (!cuda::has_granule(cuda::alignment(type), granule)) continue;
      if (Error error = find(type, operation, form, granule, kernel)) return error;
      if (Error error = load(kernel)) return error;
    }
    return {};
  };
  if (Error error = all(ANELLO_BYTE, op, Form::copy)) return error;
  if (!is_op(op) || !makes_sense(dtype, op)) return {};
  for (const anello_op_t needed : {op, ANELLO_PROD}) {
    const bool scales = op == ANELLO_SUM && class_of(dtype) != kBool;
    if (needed != op && !scales) continue;
    const cuda::RunsAs as = cuda::runs_as(dtype, needed);
    if (Error error = all(as.dtype, as.op, Form::elements)) return error;
    if (!cuda::has_wide(as.dtype, as.op)) continue;
    if (Error error = all(as.dtype, as.op, Form::wide)) return error;
  }
  return {};
}

Error CudaReducer::find(anello_dtype_t dtype, anello_op_t op, cuda::Form form, int granule, void*& kernel) {
  return find_named(kernels_[slot(dtype, op, form, granule)], cuda::image_of(dtype),
                    cuda::kernel_name(dtype, op, form, granule), kernel);
}

Error CudaReducer::find_named(std::atomic<void*>& handle, int part, const std::string& name, void*& kernel) {
  kernel = handle.load(std::memory_order_acquire);
  if (kernel != nullptr) return {};
  const std::lock_guard lock(loading_);
  void* image = nullptr;
  if (Error error = library(part, image)) return error;
  if (const int code = driver_.find_kernel(&kernel, image, name.c_str()); code != 0) {
    const Error cause = cuda::driver_error(driver_, "cuLibraryGetKernel", code);
    return {cause.code(), text("kernel ", name, ": ", cause.text())};
  }
  handle.store(kernel, std::memory_order_release);
  return {};
}

// A driver that loads lazily would do so at the first launch. What a kernel needs is known once it is loaded.
Error CudaReducer::load(void* kernel) {
  void* function = nullptr;
  if (const int code = driver_.function_of(&function, kernel); code != 0)
    return cuda::driver_error(driver_, "cuKernelGetFunction", code);
  int registers = 0;
  if (const int code = driver_.function_attribute(&registers, cuda::kRegisters, function); code != 0)
    return cuda::driver_error(driver_, "cuFuncGetAttribute", code);
  return {};
}

// Requires: loading_ is held.
Error CudaReducer::library(int image, void*& library) {
  void*& loaded = libraries_[static_cast<std::size_t>(image)];
  if (loaded == nullptr) {
    const int code =
        driver_.load_library(&loaded, images_.images[image].start, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (code != 0) {
      loaded = nullptr;
      return cuda::driver_error(driver_, "cuLibraryLoadData", code);
    }
  }
  library = loaded;
  return {};
}

Error CudaReducer::multiprocessors(int& count) {
  int device = 0;
  if (const int code = driver_.context_device(&device); code != 0) {
    const Error cause = cuda::driver_error(driver_, "cuCtxGetDevice", code);
    return {ANELLO_ERR_STATE, text("no CUDA context is current in this thread: ", cause.text())};
  }
  const bool kept = device >= 0 && static_cast<std::size_t>(device) < multiprocessors_.size();
  if (kept) count = multiprocessors_[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
  if (count != 0) return {};
  if (const int code = driver_.device_attribute(&count, cuda::kMultiprocessors, device); code != 0) {
    return cuda::driver_error(driver_, "cuDeviceGetAttribute", code);
  }
  if (kept) multiprocessors_[static_cast<std::size_t>(device)].store(count, std::memory_order_relaxed);
  return {};
}

}  // namespace anello::kernels
