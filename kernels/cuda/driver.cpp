#include "kernels/cuda/driver.h"

#include "base/text.h"

#include <dlfcn.h>

namespace anello::kernels::cuda {
namespace {

// CUresult
constexpr int kOutOfMemory = 2, kNoDevice = 100, kNoBinary = 209, kUnsupportedPtx = 222, kStubLibrary = 34;

std::string version_text(int version) { return text(version / 1000, ".", version % 1000 / 10); }

void* found(void* library, const char* name) { return dlsym(library, name); }

Driver open_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ANELLO_ERR_SYSTEM, text("no CUDA driver: ", dlerror(), ". It comes with NVIDIA's driver for the GPU."));
  }
  const Driver driver = bind(found, library);
  if (const int code = driver.init(0); code != 0) throw driver_error(driver, "cuInit", code);
  int version = 0;
  if (const int code = driver.driver_version(&version); code != 0)
    throw driver_error(driver, "cuDriverGetVersion", code);
  if (version < kOldestDriver) {
    throw Error(ANELLO_ERR_SYSTEM, text("the CUDA driver is too old: it supports CUDA ", version_text(version),
                                        ", and ", version_text(kOldestDriver), " is needed. Update the driver."));
  }
  return driver;
}

const char* advice(int code) {
  switch (code) {
    case kNoDevice: return ". Check nvidia-smi and CUDA_VISIBLE_DEVICES.";
    case kStubLibrary:
      return ". The toolkit's stub was found in place of the driver: remove its folder from LD_LIBRARY_PATH.";
    case kNoBinary:
    case kUnsupportedPtx:
      return ". The kernels hold code for compute capability 8.0, 9.0 and 10.0 and PTX for later ones: update the "
             "driver.";
    default: return "";
  }
}

}  // namespace

Driver bind(void* (*find)(void* library, const char* name), void* library) {
  Driver driver;
  const auto need = [&](auto& field, const char* name) {
    void* const address = find(library, name);
    if (address == nullptr) {
      throw Error(ANELLO_ERR_SYSTEM, text("the CUDA driver is too old: libcuda.so.1 has no ", name, ", and CUDA ",
                                          version_text(kOldestDriver), " is needed. Update the driver."));
    }
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(address);
  };
#define ANELLO_CUDA_CALL(field, name, parameters) need(driver.field, #name);
#include "kernels/cuda/driver.def"
#undef ANELLO_CUDA_CALL
  return driver;
}

const Driver& driver() {
  // A failure is tried again: the static stays uninitialised when its initialiser throws.
  static const Driver opened = open_driver();
  return opened;
}

Error driver_error(const Driver& driver, const char* call, int code) {
  const char* name = nullptr;
  const char* what = nullptr;
  if (driver.error_name(code, &name) != 0 || name == nullptr) name = "an error without a name";
  if (driver.error_text(code, &what) != 0 || what == nullptr) what = "no text";
  return {code == kOutOfMemory ? ANELLO_ERR_RESOURCE : ANELLO_ERR_SYSTEM,
          text(call, ": ", name, " (", code, "): ", what, advice(code))};
}

}  // namespace anello::kernels::cuda
