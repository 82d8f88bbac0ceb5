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
// "" if this device can reduce so; else the reason. The first time, its kernels are loaded, which may wait for the
// device: not while streams wait for this process (pinned.h).
std::string why_no_reduction(const Device& device, anello_dtype_t dtype, anello_op_t op);

}  // namespace anello::device
