#pragma once
// What fake_cuda.cpp's calls about devices and contexts do, by the names of driver.def.
#include "fake_device.h"

#include <chrono>
#include <cstring>
#include <map>
#include <thread>

namespace anello::testing {

// CUresult
inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kIllegalAddress = 700;

struct DeviceCalls {
  static bool exists(int device) {
    return device >= 0 && static_cast<std::size_t>(device) < fake_device().devices.size();
  }
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
    *count = static_cast<int>(fake_device().devices.size());
    return fake_device().entered("cuDeviceGetCount");
  }
  static int device(int* number, int ordinal) {
    *number = ordinal;
    return exists(ordinal) ? fake_device().entered("cuDeviceGet") : kInvalidValue;
  }
  static int device_name(char* name, int bytes, int) {
    std::strncpy(name, "fake device", static_cast<std::size_t>(bytes));
    return fake_device().entered("cuDeviceGetName");
  }
  static int device_uuid(unsigned char* uuid, int number) {
    std::memset(uuid, 0xfa, 16);
    uuid[15] = static_cast<unsigned char>(number);
    return fake_device().entered("cuDeviceGetUuid_v2");
  }
  static int device_attribute(int* value, int attribute, int) {
    *value = fake_device().attribute(attribute);
    return fake_device().entered("cuDeviceGetAttribute");
  }
  static int can_reach(int* can, int device, int peer) {
    *can = exists(device) && exists(peer) && device != peer ? 1 : 0;
    return fake_device().entered("cuDeviceCanAccessPeer");
  }
  static int retain_context(void** context, int device) {
    if (!exists(device)) return kInvalidValue;
    *context = &fake_device().devices[static_cast<std::size_t>(device)];
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
    *number = fake_device().current().device;
    return !FakeDevice::contexts.empty() ? fake_device().entered("cuCtxGetDevice") : kInvalidContext;
  }
  static int reach(void* peer_context, unsigned) {
    if (const int code = fake_device().entered("cuCtxEnablePeerAccess")) return code;
    const int peer = static_cast<FakeContext*>(peer_context)->device;
    const std::lock_guard lock(fake_device().mutex);
    return fake_device().current().reaches.insert(peer).second ? 0 : kernels::cuda::kAlreadyReaches;
  }
  static int synchronize() {
    if (const int code = fake_device().entered("cuCtxSynchronize")) return code;
    fake_device().wait();
    return fake_device().fault.load();
  }
};

}  // namespace anello::testing
