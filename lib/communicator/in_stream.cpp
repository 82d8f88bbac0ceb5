// Calls in a caller's stream.
#include "communicator/communicator.h"
#include "device/handover.h"

namespace anello {

using executor::Operation, executor::StreamCalls, executor::StreamLine;

Communicator::InStream Communicator::enqueue(const anello_call_t& call, void* stream) {
  if (device::driver_in_use() == nullptr)
    throw Error(ANELLO_ERR_STATE, "a call in a stream needs CUDA's driver, which this process has not loaded");
  device::Device& device = device::device_of_stream(stream);
  const bool is_captured = device::is_capturing(stream);
  InStream enqueued{};
  try {
    const auto held = context_->lock();
    Operation* const operation = context_->operations().take(*group_);
    try {
      control::CallRecord record;
      StreamLine& line = context_->stream_calls().line_of(*group_, device, stream, is_captured);
      prepare(*operation, call, record, &line);
      StreamCalls::enqueue_reads(*operation);
      line.is_open = true;
      enqueued = {&line, operation->shadow->writes, operation->shadow->base};
      if (is_captured) {
        StreamCalls::add_replayed(*operation, record);
      } else {
        StreamCalls::add(*operation);
        context_->post_held(*operation, record);
      }
    } catch (...) {
      context_->operations().give_back(operation);
      throw;
    }
  } catch (const Error& why_not) {
    refuse(call, why_not.code());  // the other ranks need not wait for it
    throw;
  }
  context_->leave_to_background();
  return enqueued;
}

void Communicator::finish_enqueuing(const InStream& call) {
  const auto held = context_->lock();
  call.line->is_open = false;
  StreamCalls::enqueue_writes(*call.line, call.writes, call.base);
}

}  // namespace anello
