// Runs small, simple blocking sends and receives from start to end under one hold of the lock.
#include "communicator/communicator.h"

#include "base/dtype.h"
#include "device/space.h"

namespace anello {

using executor::Operation;

namespace {

inline executor::SmallMessage message_of(const PlainSend& send) {
  return {static_cast<const std::byte*>(send.buffer), send.count * dtype_bytes(send.dtype), send.tag,
          short_dtype(send.dtype)};
}

[[gnu::always_inline]] inline bool receive_fast(executor::Context& context, executor::Group& group,
                                                const PlainReceive& receive, anello_status_t* status) {
  executor::SmallReceive wanted{static_cast<std::byte*>(receive.buffer), receive.count * dtype_bytes(receive.dtype),
                                receive.tag, short_dtype(receive.dtype)};
  if (!context.messages().receive_now(group, receive.source, wanted)) return false;
  group.record->received.note({receive.source, wanted.tag, wanted.bytes});
  if (status != nullptr) *status = {receive.source, wanted.tag, wanted.bytes / dtype_bytes(receive.dtype)};
  return true;
}

}  // namespace

executor::Context::Entered Communicator::pass(const PlainSend& send, bool waits, Operation** operation) {
  using executor::Context, executor::Messages;
  if (device::is_on_device(send.buffer)) return Context::Entered::not_begun;
  const auto held = context_->lock_if_free();
  if (!held) return Context::Entered::not_begun;
  const executor::SmallMessage message = message_of(send);
  const Messages::Sent sent = context_->messages().send_now(*group_, send.dest, message, waits);
  if (sent == Messages::Sent::complete) {
    group_->record->sent.note({send.dest, message.tag, message.bytes});
    return Context::Entered::complete;
  }
  if (sent == Messages::Sent::not_begun) return Context::Entered::not_begun;
  *operation = rest_of(send, sent);
  return Context::Entered::under_way;
}

bool Communicator::pass(const PlainReceive& receive, anello_status_t* status) {
  if (device::is_on_device(receive.buffer)) return false;
  const auto held = context_->lock_if_free();
  return held && receive_fast(*context_, *group_, receive, status);
}

Communicator::Passed Communicator::pass(const PlainSend& send, const PlainReceive& receive, anello_status_t* status,
                                        Operation** sending) {
  using executor::Context, executor::Messages;
  if (device::is_on_device(send.buffer) || device::is_on_device(receive.buffer)) return Passed::neither;
  const auto held = context_->lock_if_free();
  if (!held) return Passed::neither;
  const executor::SmallMessage message = message_of(send);
  const Messages::Sent sent = context_->messages().send_now(*group_, send.dest, message, false);
  if (sent == Messages::Sent::not_begun) return Passed::neither;
  if (sent != Messages::Sent::complete) {
    *sending = rest_of(send, sent);
    return Passed::send_under_way;
  }
  group_->record->sent.note({send.dest, message.tag, message.bytes});
  return receive_fast(*context_, *group_, receive, status) ? Passed::both : Passed::send;
}

// An operation for a message that has gone in part, or whose RTS has.
Operation* Communicator::rest_of(const PlainSend& send, executor::Messages::Sent sent) {
  Operation* operation = nullptr;
  try {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_SEND;
    call.sendbuf = send.buffer;
    call.count = send.count;
    call.dtype = send.dtype;
    call.peer = send.dest;
    call.tag = send.tag;
    operation = context_->operations().take(*group_);
    recorder::CallRecord record;
    prepare(*operation, call, record);
  } catch (...) {
    if (operation != nullptr) context_->operations().give_back(operation);
    context_->fail(*group_, executor::no_memory(context_->job(), "the rest of a message"), true);
    throw;
  }
  context_->messages().go_on_sending(*operation, sent);
  return operation;
}

}  // namespace anello
