#pragma once
#include "communicator/in_place.h"
#include "executor/operation.h"

#include <anello/anello.h>

namespace anello::device {
class Device;
}

namespace anello {

// Whether a buffer of the call is in a device's memory.
bool is_on_device(const anello_call_t& call);

// For such a call, whose operation has its buffers: finds those on a device (executor/shadow.h). line: of a call in a
// stream, which has a shadow in any case. Throws Error.
void shadow_buffers(executor::Operation& operation, const anello_call_t& call, int rank, int size, InPlace place,
                    executor::StreamLine* line);
// Loads the kernels that a collective may need on a device, the first time. That may wait for the device: not under the
// rank's lock.
void load_kernels(anello_kind_t kind, anello_dtype_t dtype, anello_op_t op, const device::Device& device);
// Offers to run in place a call with such buffers, which is prepared but for its memory, if this rank can; else host
// memory takes their place. In a stream, only if its kernels are loaded. Throws Error.
void offer_or_shadow(executor::Operation& operation);

}  // namespace anello
