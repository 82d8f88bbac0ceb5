// Route: leaving frames. Chooses the next flow and its next frame, and acts once a frame has gone.
#include "executor/route.h"

#include "executor/gets.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/run.h"
#include "executor/step_gets.h"
#include "kernels/default_floats.h"

#include <algorithm>
#include <utility>

namespace anello::executor {

using transport::FrameHeader;

namespace {

FrameHeader header_of(FrameKind kind, const Group& group) {
  FrameHeader header;
  header.kind = static_cast<std::uint16_t>(kind);
  header.communicator = group.id;
  return header;
}

}  // namespace

bool Route::push() {
  if (state_ != State::open) return false;
  bool moved = false;
  // Sends a few frames at a time, so that receiving gets its turn and both directions stay busy.
  for (int turn = 0; turn < 8; ++turn) {
    if (leaving_.kind == Leaving::Kind::none) {
      if (!endpoint_->flush() || flows_.empty() || !next_frame()) break;
    }
    if (!endpoint_->send(leaving_.header, leaving_.payload)) break;
    moved = true;
    sent();
    if (state_ != State::open) return true;
  }
  if (endpoint_->failure() != nullptr && incoming() == nullptr) break_off();
  if (is_counted && !has_work() && endpoint_->flush()) parts_.routes.uncount_unsent(*this);
  return moved;
}

bool Route::next_frame() {
  while (Flow* flow = flows_.pop()) {
    flow->listed = false;
    if (fill(*flow)) {
      list(*flow);  // at the end, so that communicators take turns
      return true;
    }
  }
  return false;
}

bool Route::fill(Flow& flow) {
  leaving_ = {};
  leaving_.flow = &flow;
  if (fill_note(flow) || fill_send(flow)) return true;
  flow.turn = !flow.turn;
  if (flow.turn ? fill_step(flow) || fill_message(flow) : fill_message(flow) || fill_step(flow)) return true;
  if (flow.credit.owes_much()) {
    leaving_.kind = Leaving::Kind::note;
    leaving_.header = header_of(FrameKind::credit, *flow.group);
    leaving_.header.argument = flow.credit.give_back();
    return true;
  }
  return false;
}

bool Route::fill_note(Flow& flow) {
  if (flow.notes_sent == flow.notes.size()) return false;
  leaving_.kind = Leaving::Kind::note;
  leaving_.header = flow.notes[flow.notes_sent++];
  if (flow.notes_sent == flow.notes.size()) {
    flow.notes.clear();
    flow.notes_sent = 0;
  }
  return true;
}

namespace {

// The header of a message that goes without an RTS.
FrameHeader eager_header(const Group& group, std::size_t bytes, int tag, std::uint16_t dtype) {
  FrameHeader header = header_of(FrameKind::eager, group);
  header.bytes = static_cast<std::uint32_t>(bytes);
  header.tag = static_cast<std::uint32_t>(tag);
  header.flags = dtype;
  return header;
}

FrameHeader rts_header(const Group& group, std::size_t bytes, int tag, std::uint16_t dtype) {
  FrameHeader header = header_of(FrameKind::rts, group);
  header.argument = bytes;
  header.tag = static_cast<std::uint32_t>(tag);
  header.flags = dtype;
  return header;
}

}  // namespace

// Whether a message goes without an RTS.
bool Route::goes_at_once(const Flow& flow, std::size_t bytes) const {
  return bytes <= flow.most_eager &&
         flow.credit.eager.left() >= bytes + kFrameCost + (bytes <= kEagerBytes ? 0 : kCreditForSmall);
}

// A rank that only ever sends never pulls, and cannot take an RTS back: it would wait for a receive although the peer
// has taken all earlier messages.
void Route::pull_for_credit(const Flow& flow, std::size_t bytes) {
  while (state_ == State::open && bytes <= flow.most_eager && !goes_at_once(flow, bytes)) {
    pull();
    if (!heard) return;
  }
}

// Whether no other frame must leave before the caller's.
[[gnu::always_inline]] inline bool Route::is_free_for(const Flow& flow) {
  if (state_ != State::open) return false;
  if (has_work()) {
    const kernels::DefaultFloats floats;  // a step that leaves may start one that calls a user's function
    push();
  }
  // The push may have ended an operation with an error, and the group with it: no one would end a rest of this message.
  return !flow.group->error && !has_work();
}

Route::Sent Route::send_rts(Flow& flow, const SmallMessage& message, const transport::RemoteAddress& at) {
  if (!is_free_for(flow) || !endpoint_->flush()) return Sent::not_begun;
  FrameHeader header = rts_header(*flow.group, message.bytes, message.tag, message.dtype);
  header.sequence = flow.group->next_number;
  header.bytes = kAddressBytes;
  leaving_address_ = at;
  const auto* const payload = reinterpret_cast<const std::byte*>(&leaving_address_);
  if (endpoint_->send(header, payload)) return Sent::requested;
  if (!endpoint_->mid_frame()) return Sent::not_begun;
  leaving_ = {Leaving::Kind::rts, header, payload, &flow, nullptr, nullptr};
  return Sent::in_part;
}

Route::Sent Route::send_small(Flow& flow, const SmallMessage& message) {
  if (!is_free_for(flow) || !goes_at_once(flow, message.bytes) || !endpoint_->flush()) return Sent::not_begun;
  FrameHeader header = eager_header(*flow.group, message.bytes, message.tag, message.dtype);
  header.argument = flow.credit.owes();
  const bool all = endpoint_->send(header, message.payload);
  if (!all && !endpoint_->mid_frame()) return Sent::not_begun;
  flow.credit.give_back();
  flow.credit.eager.spend(message.bytes);
  if (all) return Sent::complete;
  leaving_ = {Leaving::Kind::eager, header, message.payload, &flow, nullptr, nullptr};
  return Sent::in_part;
}

// Messages keep their order because only the first one that the peer does not know of may go: a small one itself, while
// there is credit, any other by an RTS, which has the message's address if the receiver may get it.
bool Route::fill_send(Flow& flow) {
  Operation* operation = flow.unsent.front();
  if (operation == nullptr) return false;
  leaving_.operation = operation;
  FrameHeader& header = leaving_.header;
  const bool is_for_device = operation->is_on_device() && operation->shadow->is_offer();
  const transport::RemoteAddress at =
      is_for_device ? operation->shadow->offer.input : parts_.gets.offer(flow, *operation);
  if (!at && goes_at_once(flow, operation->bytes)) {
    header = eager_header(*flow.group, operation->bytes, operation->tag, short_dtype(operation->dtype));
    header.argument = flow.credit.give_back();
    leaving_.kind = Leaving::Kind::eager;
    leaving_.payload = operation->input;
    flow.credit.eager.spend(operation->bytes);
  } else {
    header = rts_header(*flow.group, operation->bytes, operation->tag, short_dtype(operation->dtype));
    if (is_for_device) header.kind = static_cast<std::uint16_t>(FrameKind::rts_on_device);
    leaving_.kind = Leaving::Kind::rts;
    if (at) {
      header.bytes = kAddressBytes;
      leaving_address_ = at;
      leaving_.payload = reinterpret_cast<const std::byte*>(&leaving_address_);
    }
  }
  header.sequence = operation->number;
  if (!is_for_device && flow.may_get(operation->bytes)) parts_.gets.note_going(flow, operation->bytes, bool(at));
  return true;
}

bool Route::fill_message(Flow& flow) {
  Operation* operation = flow.cleared.front();
  if (operation == nullptr) return false;
  const std::size_t here = bytes_here(*operation);
  if (here == operation->moved && here < operation->bytes) return false;  // the rest is still on its device
  leaving_.kind = Leaving::Kind::message;
  leaving_.operation = operation;
  leaving_.header = header_of(FrameKind::message, *flow.group);
  leaving_.header.argument = operation->partner;
  leaving_.header.bytes = static_cast<std::uint32_t>(
      std::min(std::min(here, operation->bytes) - operation->moved, endpoint_->frame_bytes()));
  leaving_.payload = operation->input + operation->moved;
  return true;
}

bool Route::fill_step(Flow& flow) {
  for (RunLane* lane = flow.steps.front(); lane != nullptr; lane = lane->next) {
    Operation& operation = *lane->operation;
    const std::size_t reserved = flow.group->is_oldest(operation) ? 0 : kCreditForOldest;
    const std::size_t free = flow.credit.steps.left();
    const std::size_t allowed = free > reserved ? free - reserved : 0;
    const std::uint32_t step = lane->plan->sends[lane->next_send];
    const std::size_t whole = message_bytes(operation, step);
    if (flow.far != nullptr && allowed >= kAddressBytes + kFrameCost) {
      if (const transport::RemoteAddress at = parts_.step_gets.offer(*lane, step, whole)) {
        fill_step_header(*lane, FrameKind::step_rts, whole, kAddressBytes);
        leaving_address_ = at;
        leaving_.payload = reinterpret_cast<const std::byte*>(&leaving_address_);
        return true;
      }
    }
    if (lane->offered > 0) continue;  // the receiver may ask for frames of an earlier message first
    const std::size_t left = whole - lane->sent;
    std::size_t bytes = std::min(left, endpoint_->frame_bytes());
    if (allowed < bytes + kFrameCost) {
      // No crumbs: a frame must be worth its header.
      constexpr std::size_t kWorthwhile = 32 * 1024;
      if (allowed < kWorthwhile + kFrameCost) continue;
      bytes = (allowed - kFrameCost) & ~std::size_t{63};
    }
    bytes -= bytes < left ? bytes % operation.element_bytes : 0;
    fill_step_header(*lane, FrameKind::step, whole, bytes);
    leaving_.payload = operation.at(operation.plan->schedule.steps[step].from) + lane->sent;
    return true;
  }
  return false;
}

// The frame of a message of `whole` bytes has `bytes` of payload.
void Route::fill_step_header(RunLane& lane, FrameKind kind, std::size_t whole, std::size_t bytes) {
  Operation& operation = *lane.operation;
  Flow& flow = *lane.flow;
  flow.credit.steps.spend(bytes);
  leaving_.kind = kind == FrameKind::step ? Leaving::Kind::step : Leaving::Kind::step_rts;
  leaving_.lane = &lane;
  leaving_.operation = &operation;
  leaving_.header = header_of(kind, *flow.group);
  leaving_.header.tag = telling(whole).tag;
  leaving_.header.flags = telling(whole).flags;
  leaving_.header.bytes = static_cast<std::uint32_t>(bytes);
  leaving_.header.sequence = operation.sequence;
  leaving_.header.digest = operation.digest;
  leaving_.header.argument = flow.credit.give_back();
}

// The frame has gone, and its payload is free.
void Route::sent() {
  const Leaving gone = std::exchange(leaving_, Leaving{});
  Flow& flow = *gone.flow;
  switch (gone.kind) {
    case Leaving::Kind::step: {
      RunLane& lane = *gone.lane;
      Operation& operation = *gone.operation;
      lane.sent += gone.header.bytes;
      ++operation.movement;
      ++flow.group->movement;
      const std::uint32_t step = lane.plan->sends[lane.next_send];
      if (lane.sent < message_bytes(operation, step)) return;
      lane.sent = 0;
      pass_send(lane);
      step_done(operation, step);
      return;
    }
    case Leaving::Kind::step_rts:
      ++gone.operation->movement;
      ++flow.group->movement;
      if (gone.lane->by_frames) return;  // the answer to an earlier one came meanwhile: the receiver drops this one
      ++gone.lane->offered;
      pass_send(*gone.lane);
      return;
    case Leaving::Kind::eager:
      flow.unsent.remove(gone.operation);
      parts_.outcomes.finish(*gone.operation);
      return;
    case Leaving::Kind::rts:
      flow.unsent.remove(gone.operation);
      flow.requested.push(gone.operation);
      return;
    case Leaving::Kind::message: {
      Operation& operation = *gone.operation;
      operation.moved += gone.header.bytes;
      ++operation.movement;
      if (operation.moved < operation.bytes) return;
      flow.cleared.remove(&operation);
      parts_.outcomes.finish(operation);
      return;
    }
    case Leaving::Kind::note:
    case Leaving::Kind::none: return;
  }
}

}  // namespace anello::executor
