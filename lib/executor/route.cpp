#include "executor/route.h"

#include "base/clock.h"
#include "executor/context.h"
#include "executor/run.h"
#include "kernels/default_floats.h"

#include <algorithm>

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

// A frame may be half here.
Route::~Route() {
  if (arriving_.frame != nullptr) context_.drop(arriving_.frame);
}

void Route::open(std::unique_ptr<transport::Endpoint> endpoint) {
  endpoint_ = std::move(endpoint);
  state_ = State::open;
}

void Route::list(Flow& flow) {
  if (flow.listed) return;
  flow.listed = true;
  flows_.push(&flow);
}

bool Route::drained() {
  if (state_ != State::open) return true;
  if (has_work()) push();
  return endpoint_->failure() != nullptr || (!has_work() && endpoint_->flush());
}

// To ask an endpoint again is to have done with an empty frame. One whose rest does not come any more is none.
const FrameHeader* Route::incoming() {
  const bool cut_off = endpoint_->failure() != nullptr && endpoint_->remaining() > 0;
  if (incoming_ == nullptr || cut_off) incoming_ = endpoint_->incoming();
  return incoming_;
}

bool Route::has_arrivals() {
  return incoming() != nullptr && (endpoint_->remaining() == 0 || !endpoint_->view().empty());
}

void Route::break_off() {
  if (state_ != State::open) return;
  // The frame that is leaving may have been the last that the peer took.
  if (leaving_.kind != Leaving::Kind::none && endpoint_->send(leaving_.header, leaving_.payload)) sent();
  state_ = State::broken;
  broken_since_ns_ = now_ns();
  leaving_ = {};
  if (arriving_.frame != nullptr) context_.drop(arriving_.frame);
  arriving_ = {};
  context_.lane_broke(*this);
}

// ---- Sending ----

bool Route::push() {
  if (state_ != State::open) return false;
  bool moved = false;
  // A few frames at a time, so that receiving gets its turn and both directions stay busy.
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
  if (owing && !has_work() && endpoint_->flush()) context_.settle(*this);
  return moved;
}

bool Route::next_frame() {
  while (Flow* flow = flows_.pop()) {
    flow->listed = false;
    if (fill(*flow)) {
      list(*flow);  // at the end: communicators take turns
      return true;
    }
  }
  return false;
}

bool Route::fill(Flow& flow) {
  leaving_ = {};
  leaving_.flow = &flow;
  if (fill_note(flow) || fill_announcement(flow)) return true;
  flow.turn = !flow.turn;
  if (flow.turn ? fill_step(flow) || fill_message(flow) : fill_message(flow) || fill_step(flow)) return true;
  if (flow.owes_much()) {
    leaving_.kind = Leaving::Kind::note;
    leaving_.header = header_of(FrameKind::credit, *flow.group);
    leaving_.header.argument = flow.give_back();
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

// Of a message that goes as it is.
FrameHeader eager_header(const Group& group, std::size_t bytes, int tag, std::uint16_t dtype) {
  FrameHeader header = header_of(FrameKind::eager, group);
  header.bytes = static_cast<std::uint32_t>(bytes);
  header.tag = static_cast<std::uint32_t>(tag);
  header.flags = dtype;
  return header;
}

// Of one that the receiver may take from where it lies.
FrameHeader offer_header(const Group& group, const OfferedPlace& place, int tag, std::uint16_t dtype) {
  FrameHeader header = header_of(place.kind(), group);
  place.tell(header);
  header.tag = static_cast<std::uint32_t>(tag);
  header.flags = dtype;
  return header;
}

}  // namespace

// Whether a message goes without being asked for.
bool Route::goes_at_once(const Flow& flow, std::size_t bytes) const {
  return bytes <= flow.most_eager && flow.small_credit >= bytes + kFrameCost + (bytes <= kEagerBytes ? 0 : kCreditForSmall);
}

// Who only ever sends never looks, and an announcement cannot be taken back: its sender would wait for a receive though the
// peer has taken all that came before.
void Route::hear_of_credit(const Flow& flow, std::size_t bytes) {
  while (state_ == State::open && bytes <= flow.most_eager && !goes_at_once(flow, bytes)) {
    pull();
    if (!heard) return;
  }
}

// Whether nothing is to be sent before what the caller has.
[[gnu::always_inline]] inline bool Route::is_free_for(const Flow& flow) {
  if (state_ != State::open) return false;
  if (has_work()) {
    const kernels::DefaultFloats floats;  // a step that has left may be what a user's function waits for
    push();
  }
  // What that has sent may have ended an operation badly, and with it the group: nobody would end a rest of this message.
  return !flow.group->error && !has_work();
}

Route::Sent Route::send_offer(Flow& flow, const SmallMessage& message, const OfferedPlace& place) {
  if (!is_free_for(flow) || !endpoint_->flush()) return Sent::not_begun;
  FrameHeader header = offer_header(*flow.group, place, message.tag, message.dtype);
  header.sequence = flow.group->next_number;
  return endpoint_->send(header, nullptr) ? Sent::offered : Sent::not_begun;  // an empty frame goes whole or not at all
}

Route::Sent Route::send_small(Flow& flow, const SmallMessage& message) {
  if (!is_free_for(flow) || !goes_at_once(flow, message.bytes) || !endpoint_->flush()) return Sent::not_begun;
  FrameHeader header = eager_header(*flow.group, message.bytes, message.tag, message.dtype);
  header.argument = flow.owes();
  const bool all = endpoint_->send(header, message.payload);
  if (!all && !endpoint_->mid_frame()) return Sent::not_begun;
  flow.give_back();
  flow.small_credit -= message.bytes + kFrameCost;
  if (all) return Sent::complete;
  leaving_ = {Leaving::Kind::eager, header, message.payload, &flow, nullptr, nullptr};
  return Sent::in_part;
}

// Messages of send keep their order because only the first one that has not been told of may go: small ones as they
// are while there is credit, all others as an announcement or, where they lie for the receiver to take, as an offer.
bool Route::fill_announcement(Flow& flow) {
  Operation* operation = flow.announcing.front();
  if (operation == nullptr) return false;
  leaving_.operation = operation;
  FrameHeader& header = leaving_.header;
  if (const OfferedPlace place = context_.place_to_offer(flow, operation->input, operation->bytes); place.region != 0) {
    header = offer_header(*flow.group, place, operation->tag, short_dtype(operation->dtype));
    leaving_.kind = Leaving::Kind::announce;
  } else if (goes_at_once(flow, operation->bytes)) {
    header = eager_header(*flow.group, operation->bytes, operation->tag, short_dtype(operation->dtype));
    header.argument = flow.give_back();
    leaving_.kind = Leaving::Kind::eager;
    leaving_.payload = operation->input;
    flow.small_credit -= operation->bytes + kFrameCost;
  } else {
    header = header_of(FrameKind::announce, *flow.group);
    header.argument = operation->bytes;
    header.tag = static_cast<std::uint32_t>(operation->tag);
    header.flags = short_dtype(operation->dtype);
    leaving_.kind = Leaving::Kind::announce;
  }
  header.sequence = operation->number;
  if (flow.offers(operation->bytes)) context_.note_going(flow, operation->bytes, is_offer(header));
  return true;
}

bool Route::fill_message(Flow& flow) {
  Operation* operation = flow.granted.front();
  if (operation == nullptr) return false;
  leaving_.kind = Leaving::Kind::message;
  leaving_.operation = operation;
  leaving_.header = header_of(FrameKind::message, *flow.group);
  leaving_.header.argument = operation->partner;
  leaving_.header.bytes =
      static_cast<std::uint32_t>(std::min(operation->bytes - operation->moved, endpoint_->frame_bytes()));
  leaving_.payload = operation->input + operation->moved;
  return true;
}

bool Route::fill_step(Flow& flow) {
  for (RunLane* lane = flow.steps.front(); lane != nullptr; lane = lane->next) {
    Operation& operation = *lane->operation;
    const std::size_t reserved = flow.group->is_oldest(operation) ? 0 : kCreditForOldest;
    const std::size_t allowed = flow.credit > reserved ? flow.credit - reserved : 0;
    const std::uint32_t step = lane->plan->sends[lane->next_send];
    const std::size_t whole = message_bytes(operation, step);
    const std::size_t left = whole - lane->sent;
    std::size_t bytes = std::min(left, endpoint_->frame_bytes());
    if (allowed < bytes + kFrameCost) {
      // Not in crumbs: a frame that is worth its header.
      constexpr std::size_t kWorthwhile = 32 * 1024;
      if (allowed < kWorthwhile + kFrameCost) continue;
      bytes = (allowed - kFrameCost) & ~std::size_t{63};
    }
    bytes -= bytes < left ? bytes % operation.element_bytes : 0;
    flow.credit -= bytes + kFrameCost;
    leaving_.kind = Leaving::Kind::step;
    leaving_.lane = lane;
    leaving_.operation = &operation;
    leaving_.header = header_of(FrameKind::step, *flow.group);
    leaving_.header.tag = telling(whole).tag;
    leaving_.header.flags = telling(whole).flags;
    leaving_.header.bytes = static_cast<std::uint32_t>(bytes);
    leaving_.header.sequence = operation.sequence;
    leaving_.header.digest = operation.digest;
    leaving_.header.argument = flow.give_back();
    leaving_.payload = operation.at(operation.plan->schedule.steps[step].from) + lane->sent;
    return true;
  }
  return false;
}

// The frame is gone and its payload free.
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
      ++lane.next_send;
      const bool more = lane.next_send < lane.plan->sends.size() &&
                        operation.run.waits[lane.plan->sends[lane.next_send]] == 0;
      if (!more) {
        flow.steps.remove(&lane);
        lane.queued = false;
      }
      step_done(operation, step);
      return;
    }
    case Leaving::Kind::eager:
      flow.announcing.remove(gone.operation);
      context_.finish(*gone.operation);
      return;
    case Leaving::Kind::announce:
      flow.announcing.remove(gone.operation);
      flow.announced.push(gone.operation);
      return;
    case Leaving::Kind::message: {
      Operation& operation = *gone.operation;
      operation.moved += gone.header.bytes;
      ++operation.movement;
      if (operation.moved < operation.bytes) return;
      flow.granted.remove(&operation);
      context_.finish(operation);
      return;
    }
    case Leaving::Kind::note:
    case Leaving::Kind::none:
      return;
  }
}

// ---- Receiving ----

bool Route::pull() {
  if (state_ != State::open) return false;
  bool moved = false;
  bool delivered = false;  // the last one went to where it belongs
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
      // What comes too early would be copied twice. If this rank still waits for something behind it, it comes again.
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
  // Whatever becomes of it: this frame, where it is empty, and those that were read with it are in no socket any more, and who
  // asks epoll alone would not look here.
  heard = true;
  if (header->kind != static_cast<std::uint16_t>(FrameKind::eager) || header->communicator != flow.group->id) {
    const bool offers = is_offer(*header) && header->communicator == flow.group->id;
    return offers ? Arrived::offer : Arrived::something_else;
  }
  const std::size_t bytes = header->bytes;
  if ((bytes > 0 && endpoint_->arrived() < bytes) || !wanted.takes(static_cast<int>(header->tag), header->flags, bytes) ||
      !flow.take_back(header->argument)) {
    return Arrived::something_else;
  }
  if (bytes > 0) endpoint_->receive(wanted.into, bytes);
  incoming_ = nullptr;
  return Arrived::message;
}

Route::Arrived Route::take_answer(const Flow& flow) {
  if (state_ != State::open || arriving_.mode != Arriving::Mode::none) return Arrived::something_else;
  const FrameHeader* const header = incoming();
  if (header == nullptr) return endpoint_->failure() != nullptr ? Arrived::something_else : Arrived::nothing;
  const bool is_over = header->kind == static_cast<std::uint16_t>(FrameKind::grant) && header->communicator == flow.group->id &&
                       header->sequence == flow.group->next_number && header->flags == static_cast<std::uint16_t>(Granted::over);
  if (!is_over) return Arrived::something_else;
  incoming_ = nullptr;
  return Arrived::message;
}

// Of a call that this rank has not come to.
bool Route::is_early(const FrameHeader& header) const {
  if (header.kind != static_cast<std::uint16_t>(FrameKind::step)) return false;
  Group* const group = context_.find_group(header.communicator);
  return group != nullptr && group->find(header.sequence) == nullptr;
}

// Decides, once a frame, where its payload goes.
void Route::classify(const FrameHeader& header) {
  using Mode = Arriving::Mode;
  arriving_ = {};
  arriving_.mode = Mode::discard;
  torn_.clear();
  Group* group = context_.find_group(header.communicator);
  if (group == nullptr) {
    if (context_.retired(header.communicator)) return;
    arriving_.frame = context_.keep(header, peer_);  // may throw, and the frame is then let pass
    arriving_.mode = Mode::keep;
    return;
  }
  const int peer = group->rank_of_world(peer_);
  if (peer < 0 || group->error) return;
  Flow& flow = group->flows.to(peer);
  arriving_.flow = &flow;
  const auto kind = static_cast<FrameKind>(header.kind);
  if (kind == FrameKind::step || kind == FrameKind::eager) {
    // Credit given back rides on what goes the other way.
    if (!flow.take_back(header.argument)) {
      context_.fail(*group, Error(ANELLO_ERR_CORRUPT, context_.job().describe(peer_) + " returned credit it never had",
                                  peer_), true);
      return;
    }
    if (header.argument > 0) list(flow);
  }
  if (kind == FrameKind::eager) {
    if (context_.takes_eager(flow, header, arriving_.operation)) {
      if (arriving_.operation != nullptr) arriving_.mode = Mode::message;
      return;
    }
    return keep_for(*group, header);
  }
  if (kind == FrameKind::message) {
    Operation* receive = context_.find_granted(*group, static_cast<std::uint32_t>(header.argument));
    if (receive == nullptr || receive->peer != peer || header.bytes > receive->bytes - receive->moved) {
      context_.fail(*group, Error(ANELLO_ERR_CORRUPT, context_.job().describe(peer_) + " sent a message nobody granted",
                                  peer_), true);
      return;
    }
    arriving_.mode = Mode::message;
    arriving_.operation = receive;
    return;
  }
  if (kind != FrameKind::step) return;  // notes have no payload
  Operation* operation = group->find(header.sequence);
  if (group->is_of_another_call(operation, header)) {
    context_.suspect(*group, header.sequence, peer);
    return;
  }
  if (operation != nullptr && operation->state == Operation::State::active) {
    Run& run = operation->run;
    const auto lane = std::find_if(run.lanes.begin(), run.lanes.end(),
                                   [peer](const RunLane& candidate) { return candidate.plan->peer == peer; });
    if (lane == run.lanes.end() || lane->next_receive == lane->plan->receives.size()) {
      context_.suspect(*group, header.sequence);
      return;
    }
    arriving_.lane = &*lane;
    arriving_.operation = operation;
    if (lane->early.empty() && receive_ready(*lane)) {
      if (fits(*lane, header)) arriving_.mode = Mode::step;
      return;
    }
  }
  keep_for(*group, header);
}

void Route::keep_for(Group& group, const FrameHeader& header) {
  EarlyFrame* const frame = context_.keep_for(group, header, peer_);
  if (frame == nullptr) return;  // it is let pass
  arriving_.mode = Arriving::Mode::keep;
  arriving_.frame = frame;
}

// Moves what has arrived of the frame's payload.
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
      case Mode::message: {
        Operation& receive = *arriving_.operation;
        bytes = endpoint_->receive(receive.output + receive.moved, left);
        receive.moved += bytes;
        if (bytes > 0) ++receive.movement;  // else a peer that stops in a frame would have no deadline
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
    context_.count_taken(bytes);
    came_ += bytes;
    moved = true;
  }
  return moved;
}

// Combines what is there of the current receive's message with what it belongs to; how much that was.
std::size_t Route::combine(RunLane& lane, std::size_t left) {
  const auto view = endpoint_->view();
  const std::size_t element = lane.operation->element_bytes;
  std::size_t bytes = std::min(view.size(), left);
  if (torn_.empty() && 16 % element == 0) {
    // Multiples of 16 where more is to come, so that the next view is aligned.
    if (bytes < left) bytes &= ~std::size_t{15};
  } else if (torn_.empty() && bytes >= element) {
    bytes -= bytes % element;
  } else {
    // An element of the caller's own, torn by the end of a ring or of what a socket has given so far.
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
  context_.count_handled(header.bytes);
  const auto kind = static_cast<FrameKind>(header.kind);
  switch (done.mode) {
    case Mode::step:
      context_.consumed(*done.flow, header.bytes);
      frame_done(*done.lane);
      return;
    case Mode::keep:
      if (done.flow == nullptr) {
        context_.stray(done.frame);
      } else if (kind == FrameKind::eager) {
        context_.on_eager(*done.flow, done.frame);
      } else {
        context_.arrived_early(*done.flow, done.frame);
      }
      return;
    case Mode::message:
      if (kind == FrameKind::eager) context_.consumed_small(*done.flow, header.bytes);
      if (done.operation->moved == done.operation->bytes) {
        done.flow->group->matched.remove(done.operation);
        context_.finish(*done.operation);
      }
      return;
    case Mode::discard:
      if (done.flow == nullptr || done.flow->group->error) return;
      if (kind == FrameKind::eager) context_.consumed_small(*done.flow, header.bytes);
      context_.on_note(*done.flow, header);
      return;
    case Mode::none:
      return;
  }
}

void Route::forget(Group& group) {
  for (Flow& flow : group.flows) {
    if (flow.route == this && flow.listed) {
      flows_.remove(&flow);
      flow.listed = false;
    }
  }
  // The answer to what a peer has announced is none of the operations that end here.
  if (leaving_.kind != Leaving::Kind::note) forget_leaving(group);
  if (arriving_.flow != nullptr && arriving_.flow->group == &group) {
    if (arriving_.frame != nullptr) context_.drop(arriving_.frame);
    arriving_ = {};
    arriving_.mode = Arriving::Mode::discard;
  }
}

void Route::forget_notes(Group& group) {
  forget(group);
  forget_leaving(group);
}

void Route::forget_leaving(const Group& group) {
  if (leaving_.kind == Leaving::Kind::none || leaving_.flow->group != &group) return;
  if (endpoint_ != nullptr) endpoint_->detach();
  leaving_ = {};
}

}  // namespace anello::executor
