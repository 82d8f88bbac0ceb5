// Route: arriving frames. Finds a frame's owner, moves its payload, and acts once all of it is here.
#include "executor/route.h"

#include "base/clock.h"
#include "executor/activity.h"
#include "executor/groups.h"
#include "executor/kept_frames.h"
#include "executor/messages.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/shadows.h"
#include "executor/step_gets.h"
#include "executor/steps.h"
#include "executor/supervision.h"
#include "health/peer_fates.h"
#include "executor/run.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace anello::executor {

using transport::FrameHeader;

bool Route::pull() {
  if (state_ != State::open) return false;
  bool moved = false;
  bool delivered = false;  // the last frame went straight to its destination
  constexpr int kMost = 64;
  int frames = 0;
  for (; frames < kMost; ++frames) {
    const FrameHeader* const at = incoming();
    if (at == nullptr) {
      if (endpoint_->failure() != nullptr) break_off();
      break;
    }
    const FrameHeader header = *at;
    if (arriving_.mode == Arriving::Mode::none) {
      // An early frame would be copied twice. If this rank still waits for a frame behind it, it pulls again.
      if (delivered && is_early(header)) {
        heard = true;
        return true;
      }
      classify(header);
    }
    delivered = arriving_.mode == Arriving::Mode::step || arriving_.mode == Arriving::Mode::message;
    moved |= consume();
    if (endpoint_->remaining() > 0) break;
    moved = true;
    incoming_ = nullptr;
    ++came_;
    arrived(header);
    if (state_ != State::open) break;
  }
  heard = frames == kMost;
  return moved;
}

Route::Arrived Route::take_small(Flow& flow, SmallReceive& wanted) {
  if (state_ != State::open || arriving_.mode != Arriving::Mode::none) return Arrived::something_else;
  const FrameHeader* const header = incoming();
  if (header == nullptr) return endpoint_->failure() != nullptr ? Arrived::something_else : Arrived::nothing;
  // In any case: this frame, if it is empty, and those that were read with it are in no socket any more, so that epoll
  // does not report them.
  heard = true;
  if (header->kind != static_cast<std::uint16_t>(FrameKind::eager) || header->communicator != flow.group->id) {
    const bool may_get = is_rts(*header) && has_address(*header) && header->communicator == flow.group->id;
    // The end of a ring may tear the address, or a part is not here yet: the general path puts it together.
    return may_get && endpoint_->view().size() >= kAddressBytes ? Arrived::rts : Arrived::something_else;
  }
  const std::size_t bytes = header->bytes;
  if ((bytes > 0 && endpoint_->arrived() < bytes) ||
      !wanted.takes(static_cast<int>(header->tag), header->flags, bytes) || !flow.credit.take_back(header->argument)) {
    return Arrived::something_else;
  }
  if (bytes > 0) endpoint_->receive(wanted.into, bytes);
  incoming_ = nullptr;
  return Arrived::message;
}

transport::RemoteAddress Route::rts_address() const {
  transport::RemoteAddress at;
  std::memcpy(&at, endpoint_->view().data(), kAddressBytes);
  return at;
}

void Route::pass_rts() {
  endpoint_->consume(kAddressBytes);
  incoming_ = nullptr;
}

Route::Arrived Route::take_cts(const Flow& flow) {
  if (state_ != State::open || arriving_.mode != Arriving::Mode::none) return Arrived::something_else;
  const FrameHeader* const header = incoming();
  if (header == nullptr) return endpoint_->failure() != nullptr ? Arrived::something_else : Arrived::nothing;
  const bool is_over = header->kind == static_cast<std::uint16_t>(FrameKind::cts) &&
                       header->communicator == flow.group->id && header->sequence == flow.group->next_number &&
                       header->flags == static_cast<std::uint16_t>(Answer::done);
  if (!is_over) return Arrived::something_else;
  incoming_ = nullptr;
  return Arrived::message;
}

// Whether the frame's call is not in flight here.
bool Route::is_early(const FrameHeader& header) const {
  if (header.kind != static_cast<std::uint16_t>(FrameKind::step)) return false;
  Group* const group = parts_.groups.find(header.communicator);
  return group != nullptr && group->find(header.sequence) == nullptr;
}

// Decides, once per frame, where its payload goes.
void Route::classify(const FrameHeader& header) {
  using Mode = Arriving::Mode;
  arriving_ = {};
  arriving_.mode = Mode::discard;
  torn_.clear();
  Group* group = parts_.groups.find(header.communicator);
  if (group == nullptr) {
    if (parts_.groups.is_past(header.communicator) || !parts_.kept.keeps_stray(header, peer_)) return;
    arriving_.frame = parts_.frames.take(header, peer_);  // may throw, and the frame is then discarded
    arriving_.mode = Mode::keep;
    return;
  }
  const int peer = group->rank_of_world(peer_);
  if (peer < 0 || group->error) return;
  Flow& flow = group->flows.to(peer);
  arriving_.flow = &flow;
  const auto kind = static_cast<FrameKind>(header.kind);
  if (is_of_step(kind) || kind == FrameKind::eager) {
    // A frame also carries returned credit of the other direction.
    if (!flow.credit.take_back(header.argument)) {
      parts_.outcomes.fail(
          *group, Error(ANELLO_ERR_CORRUPT, parts_.job.describe(peer_) + " returned credit it never had", peer_), true);
      return;
    }
    if (header.argument > 0) list(flow);
  }
  if (kind == FrameKind::eager) {
    if (parts_.messages.takes_eager(flow, header, arriving_.operation)) {
      if (arriving_.operation != nullptr) arriving_.mode = Mode::message;
      return;
    }
    return keep_for(*group, header);
  }
  if (kind == FrameKind::message) {
    Operation* receive = parts_.messages.find_cleared(*group, static_cast<std::uint32_t>(header.argument));
    if (receive == nullptr || receive->peer != peer || header.bytes > receive->bytes - receive->moved) {
      parts_.outcomes.fail(
          *group, Error(ANELLO_ERR_CORRUPT, parts_.job.describe(peer_) + " sent a message that nobody cleared", peer_),
          true);
      return;
    }
    arriving_.mode = Mode::message;
    arriving_.operation = receive;
    return;
  }
  if ((kind == FrameKind::rts || kind == FrameKind::rts_on_device) && has_address(header)) {
    arriving_.mode = Mode::address;
    return;
  }
  if (!is_of_step(kind)) return;  // other notes have no payload
  Operation* operation = group->find(header.sequence);
  if (group->is_of_another_call(operation, header)) {
    parts_.supervision.suspect(*group, header.sequence, peer);
    return;
  }
  if (operation != nullptr && operation->state == Operation::State::active) {
    Run& run = operation->run;
    const auto lane = std::find_if(run.lanes.begin(), run.lanes.end(),
                                   [peer](const RunLane& candidate) { return candidate.plan->peer == peer; });
    if (lane == run.lanes.end() || lane->next_receive == lane->plan->receives.size()) {
      parts_.supervision.suspect(*group, header.sequence);
      return;
    }
    arriving_.lane = &*lane;
    arriving_.operation = operation;
    // An engine that is not immediate combines whole frames, from their kept copies.
    const bool at_once = parts_.steps.is_immediate();
    const bool goes_there = kind == FrameKind::step && lane->early.empty() && !lane->is_busy() && receive_ready(*lane);
    if (goes_there && (at_once || landing(*lane) != nullptr)) {
      if (fits(*lane, header)) arriving_.mode = Mode::step;
      return;
    }
  }
  keep_for(*group, header);
}

void Route::keep_for(Group& group, const FrameHeader& header) {
  if (!arriving_.flow->credit.of(static_cast<FrameKind>(header.kind)).keep(header.bytes)) {
    parts_.outcomes.fail(
        group, Error(ANELLO_ERR_CORRUPT, parts_.job.describe(peer_) + " sent more ahead than it had credit for", peer_),
        true);
    return;
  }
  EarlyFrame* const frame = parts_.kept.keep_for(group, header, peer_);
  if (frame == nullptr) return;  // the frame is discarded
  arriving_.mode = Arriving::Mode::keep;
  arriving_.frame = frame;
}

// Moves the arrived part of the frame's payload.
bool Route::consume() {
  using Mode = Arriving::Mode;
  bool moved = false;
  while (const std::size_t left = endpoint_->remaining()) {
    std::size_t bytes = 0;
    switch (arriving_.mode) {
      case Mode::keep:
        bytes = endpoint_->receive(arriving_.frame->payload.data() + arriving_.frame->filled, left);
        arriving_.frame->filled += bytes;
        break;
      case Mode::address:
        bytes = endpoint_->receive(reinterpret_cast<std::byte*>(&arriving_.address) + arriving_.filled, left);
        arriving_.filled += bytes;
        break;
      case Mode::message: {
        Operation& receive = *arriving_.operation;
        bytes = endpoint_->receive(receive.output + receive.moved, left);
        receive.moved += bytes;
        if (bytes > 0) ++receive.movement;  // otherwise a peer that stops in a frame would have no deadline
        break;
      }
      case Mode::step: {
        RunLane& lane = *arriving_.lane;
        if (std::byte* into = landing(lane)) {
          bytes = endpoint_->receive(into, left);
          lane.received += bytes;
          if (bytes > 0) {
            ++lane.operation->movement;
            ++lane.flow->group->movement;
          }
          break;
        }
        bytes = combine(lane, left);
        break;
      }
      case Mode::discard:
      case Mode::none: {
        const auto view = endpoint_->view();
        bytes = std::min(view.size(), left);
        if (bytes > 0) endpoint_->consume(bytes);
        break;
      }
    }
    if (bytes == 0) return moved;
    parts_.activity.received_bytes += bytes;
    came_ += bytes;
    moved = true;
  }
  return moved;
}

// Combines the arrived part of the current receive's message with its operands. Returns the bytes taken.
std::size_t Route::combine(RunLane& lane, std::size_t left) {
  const auto view = endpoint_->view();
  const std::size_t element = lane.operation->element_bytes;
  std::size_t bytes = std::min(view.size(), left);
  if (torn_.empty() && 16 % element == 0) {
    // Takes a multiple of 16 if more is to come, so that the next view is aligned.
    if (bytes < left) bytes &= ~std::size_t{15};
  } else if (torn_.empty() && bytes >= element) {
    bytes -= bytes % element;
  } else {
    // The end of a ring, or of the bytes that a socket has given so far, tears an element of the caller's own.
    bytes = std::min(bytes, element - torn_.size());
    torn_.insert(torn_.end(), view.begin(), view.begin() + static_cast<std::ptrdiff_t>(bytes));
    if (torn_.size() == element) {
      apply(lane, torn_.data(), element);
      torn_.clear();
    }
    if (bytes > 0) endpoint_->consume(bytes);
    return bytes;
  }
  if (bytes == 0) return 0;
  apply(lane, view.data(), bytes);
  endpoint_->consume(bytes);
  return bytes;
}

// All of the frame is here.
void Route::arrived(FrameHeader header) {
  using Mode = Arriving::Mode;
  const Arriving done = std::exchange(arriving_, Arriving{});
  parts_.activity.count_handled(header.bytes);
  const auto kind = static_cast<FrameKind>(header.kind);
  switch (done.mode) {
    case Mode::step:
      parts_.kept.consumed(*done.flow, header.bytes);
      frame_done(*done.lane);
      return;
    case Mode::keep:
      if (done.flow == nullptr) {
        parts_.kept.stray(done.frame);
      } else if (kind == FrameKind::eager) {
        parts_.messages.on_eager(*done.flow, done.frame);
      } else {
        parts_.kept.arrived_early(*done.flow, done.frame);
      }
      return;
    case Mode::message:
      if (kind == FrameKind::eager) parts_.kept.consumed_small(*done.flow, header.bytes);
      if (done.operation->shadow != nullptr) parts_.shadows.give_back_received(*done.operation);
      if (done.operation->moved == done.operation->bytes) {
        done.flow->group->matched.remove(done.operation);
        parts_.outcomes.finish(*done.operation);
      }
      return;
    case Mode::address:
      if (!done.flow->group->error) on_note(*done.flow, header, done.address);
      return;
    case Mode::discard:
      if (done.flow == nullptr || done.flow->group->error) return;
      if (kind == FrameKind::eager) parts_.kept.consumed_small(*done.flow, header.bytes);
      on_note(*done.flow, header, {});
      return;
    case Mode::none: return;
  }
}

namespace {

// The error that a communicator had at the rank that has left it. A code that does not exist counts as none.
Error left_after(const FrameHeader& leave, int ranks) {
  if (leave.flags > ANELLO_ERR_INTERNAL) return {};
  const bool is_rank = leave.tag > 0 && leave.tag <= static_cast<std::uint32_t>(ranks);
  return Error(static_cast<anello_result_t>(leave.flags), {}, is_rank ? static_cast<int>(leave.tag) - 1 : -1);
}

}  // namespace

void Route::on_note(Flow& flow, const FrameHeader& header, const transport::RemoteAddress& at) {
  switch (static_cast<FrameKind>(header.kind)) {
    case FrameKind::credit:
      if (!flow.credit.take_back(header.argument)) {
        parts_.outcomes.fail(
            *flow.group, Error(ANELLO_ERR_CORRUPT, parts_.job.describe(peer_) + " returned credit it never had", peer_),
            true);
        return;
      }
      parts_.routes.want_to_send(flow);
      return;
    case FrameKind::leave:
      flow.left_ns = now_ns();
      flow.left_after = left_after(header, parts_.job.size());
      parts_.fates.note_trouble();
      return;
    case FrameKind::rts:
    case FrameKind::rts_on_device: parts_.messages.on_rts(flow, header, at); return;
    case FrameKind::cts: parts_.messages.on_cts(flow, header); return;
    case FrameKind::step_cts: parts_.step_gets.answered(flow, header); return;
    default: return;
  }
}

}  // namespace anello::executor
