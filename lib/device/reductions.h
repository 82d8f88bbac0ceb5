#pragma once
// The kernels that reduce in devices' memory, once for the process.
#include "base/error.h"
#include "device/device.h"
#include "kernels/reduce_cuda.h"

#include <anello/anello.h>

#include <string>

namespace anello::device {

// Requires: why_no_reduction() was "" for some type and operation.
kernels::CudaReducer& reducer();
// Loads the device's kernels for a type and operation, the first time. That may wait for all that the device does, and
// so for streams that wait for a rank: not under the rank's lock.
void load_reduction(const Device& device, anello_dtype_t dtype, anello_op_t op);
// "" if they are loaded; else the reason.
std::string why_no_reduction(const Device& device, anello_dtype_t dtype, anello_op_t op);

}  // namespace anello::device
