// Calls in a caller's stream.
#include "communicator/communicator.h"

#include "base/kind.h"
#include "communicator/reduction.h"
#include "communicator/shadowing.h"
#include "device/handover.h"
#include "device/imported.h"

#include <utility>

namespace anello {

using executor::Operation, executor::StreamCalls, executor::StreamLine;

void Communicator::load_kernels_of(const anello_call_t& call, const device::Device& device) {
  if (is_message(call.kind) || kind_is_varying(call.kind) || is_custom_op(call.op)) return;
  schedule::Call asked = planned(call, in_place(call, rank()), reduction_of(call));
  asked.space = schedule::Space::devices;
  if (plans(asked)->has_device_plans()) load_kernels(call.kind, call.dtype, call.op, device);
}

// The call takes its place in the order, before its stream gets any of it.
StreamLine* Communicator::post_in_stream(const anello_call_t& call, device::Device& device, void* stream,
                                         bool is_captured) {
  const auto held = context_->lock();
  if (group_->error) throw group_->error;  // another thread may have destroyed the communicator just now
  StreamLine& line = context_->stream_calls().open_line(*group_, device, stream, is_captured);
  Operation* operation = nullptr;
  try {
    operation = context_->operations().take(*group_);
    recorder::CallRecord record;
    prepare(*operation, call, record, &line);
    if (is_captured) {
      StreamCalls::add_replayed(*operation, record);
    } else {
      context_->post_held(*operation, record);
    }
    return &line;
  } catch (...) {
    line.is_open = false;
    if (operation != nullptr) context_->operations().give_back(operation);
    throw;
  }
}

StreamLine* Communicator::enqueue(const anello_call_t& call, void* stream) {
  if (device::driver_in_use() == nullptr)
    throw Error(ANELLO_ERR_STATE, "a call in a stream needs CUDA's driver, which this process has not loaded");
  StreamLine* line = nullptr;
  try {
    device::Device& device = device::device_of_stream(stream);
    device::Imported::close_unused();
    const bool is_captured = device::is_capturing(stream);
    if (!is_captured) load_kernels_of(call, device);  // a capture allows no such calls
    line = post_in_stream(call, device, stream, is_captured);
  } catch (const Error& why_not) {
    refuse(call, why_not.code());  // the other ranks need not wait for it
    throw;
  }
  context_->leave_to_background();
  try {
    StreamCalls::enqueue_come(*line);
  } catch (const Error& why_not) {
    {
      const auto held = context_->lock();
      StreamCalls::take_back(*line);
      line->is_open = false;
    }
    context_->abort(*group_, context_->job().own_error(why_not));  // the other ranks wait for it
    throw;
  }
  return line;
}

void Communicator::finish_enqueuing(StreamLine& line) {
  Error wrong;
  try {
    StreamCalls::enqueue_wait(line);
  } catch (const Error& why_not) {
    wrong = why_not;
  }
  {
    const auto held = context_->lock();
    line.is_open = false;
  }
  if (!wrong) return;
  context_->abort(*group_, context_->job().own_error(wrong));
  throw wrong;
}

}  // namespace anello
