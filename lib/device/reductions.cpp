#include "device/reductions.h"

#include "base/log.h"
#include "device/pinned.h"

#include <map>
#include <mutex>
#include <utility>

namespace anello::device {
namespace {

std::string prepare(const Device& device, anello_dtype_t dtype, anello_op_t op) {
  if (std::string why = device.why_no_kernels(); !why.empty()) return why;
  try {
    const Device::Use use(device);
    return reducer().prepare(dtype, op).text();
  } catch (const Error& missing) {
    return missing.text();
  }
}

}  // namespace

kernels::CudaReducer& reducer() {
  // Never destroyed: when static objects are, the driver may have gone.
  static auto& only = *new kernels::CudaReducer(kernels::cuda::driver(), kernels::cuda::images());
  return only;
}

std::string why_no_reduction(const Device& device, anello_dtype_t dtype, anello_op_t op) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::pair<int, int>, std::string>;
  const std::lock_guard lock(mutex);
  const std::pair<int, int> which(device.number(), int{dtype} * kernels::kOps + int{op});
  const auto found = known.find(which);
  if (found != known.end()) return found->second;
  if (streams_wait()) return "its kernels are not loaded yet, and a stream waits for this process";
  const std::string& why = known[which] = prepare(device, dtype, op);
  if (!why.empty()) log::info(-1, op_name(op), " of ", dtype_name(dtype), " is computed on the host: ", why);
  return why;
}

}  // namespace anello::device
