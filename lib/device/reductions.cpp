#include "device/reductions.h"

#include "base/log.h"

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

namespace {

struct Known {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::string> why_not;  // by device, and type and operation
};
Known& known() {
  static Known& all = *new Known;
  return all;
}
std::pair<int, int> key_of(const Device& device, anello_dtype_t dtype, anello_op_t op) {
  return {device.number(), int{dtype} * kernels::kOps + int{op}};
}

}  // namespace

void load_reduction(const Device& device, anello_dtype_t dtype, anello_op_t op) {
  const std::pair<int, int> key = key_of(device, dtype, op);
  {
    const std::lock_guard lock(known().mutex);
    if (known().why_not.contains(key)) return;
  }
  const std::string why_not = prepare(device, dtype, op);
  if (!why_not.empty()) log::info(-1, op_name(op), " of ", dtype_name(dtype), " is computed on the host: ", why_not);
  const std::lock_guard lock(known().mutex);
  known().why_not[key] = why_not;
}

std::string why_no_reduction(const Device& device, anello_dtype_t dtype, anello_op_t op) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().why_not.find(key_of(device, dtype, op));
  return found != known().why_not.end() ? found->second : "its kernels are not loaded";
}

}  // namespace anello::device
