#include "executor/step_gets.h"

#include "base/error.h"
#include "base/text.h"
#include "executor/activity.h"
#include "executor/gets.h"
#include "executor/group.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/run.h"
#include "executor/steps.h"
#include "memory/buffer.h"
#include "memory/region.h"

#include <algorithm>
#include <new>
#include <utility>

namespace anello::executor {

StepGets::~StepGets() {
  if (slots_ != nullptr) memory::free_region(slots_);
}

// ---- The sender's side ----

transport::RemoteAddress StepGets::offer(RunLane& lane, std::uint32_t step, std::size_t bytes) {
  Flow& flow = *lane.flow;
  Operation& operation = *lane.operation;
  if (lane.by_frames || lane.sent > 0 || !flow.may_get(bytes)) return {};
  const memory::Buffer buffer = parts_.buffers.find(operation.at(operation.plan->schedule.steps[step].from), bytes);
  if (buffer.spot.region == 0) return {};
  Lent lent{flow.far, flow.peer, {}, nullptr};
  try {
    operation.lent.reserve(operation.lent.size() + 1);
    lent.at = flow.far->give_out(parts_.routes.remote_peer(*flow.group, flow.peer), buffer,
                                 transport::RemoteMemory::Use::gets, &lent.kept);
  } catch (const std::bad_alloc&) {
    return {};  // frames need no memory, and this may be another operation's turn
  }
  const transport::RemoteAddress at = lent.at;
  if (!at) return {};
  const auto known = std::find_if(operation.lent.begin(), operation.lent.end(), [&](const Lent& each) {
    return each.memory == lent.memory && each.peer == lent.peer && each.at.key == at.key;
  });
  if (known != operation.lent.end()) {
    *known = std::move(lent);
  } else {
    operation.lent.push_back(std::move(lent));
  }
  return at;
}

void StepGets::answered(Flow& flow, const transport::FrameHeader& header) {
  Group& group = *flow.group;
  Operation* const operation = group.find(header.sequence);
  const bool is_active = operation != nullptr && operation->state == Operation::State::active;
  RunLane* lane = nullptr;
  if (is_active && operation->digest == header.digest) {
    for (RunLane& each : operation->run.lanes) {
      if (each.flow == &flow && each.offered > 0) lane = &each;
    }
  }
  const auto answer = static_cast<Answer>(header.flags);
  const bool is_done = answer == Answer::done;
  const std::uint32_t step = lane != nullptr ? lane->plan->sends[lane->next_send - lane->offered] : 0;
  const bool is_right =
      lane != nullptr && (is_done || (answer == Answer::send && header.argument < message_bytes(*operation, step) &&
                                      header.argument % operation->element_bytes == 0));
  if (!is_right) {
    const int world = group.ranks[std::size_t(flow.peer)];
    const std::string who = parts_.job.describe(world);
    return parts_.outcomes.fail(
        group, Error(ANELLO_ERR_CORRUPT, who + " answered a request to send that it has not had", world), true);
  }
  ++operation->movement;
  ++group.movement;
  if (is_done) {
    --lane->offered;
    parts_.routes.want_to_send(flow);  // a frame may have waited for the answer
    return step_done(*operation, step);
  }
  lane->by_frames = true;
  lane->next_send -= std::exchange(lane->offered, 0);
  lane->sent = std::size_t(header.argument);
  queue_sends(*lane);
  parts_.routes.want_to_send(flow);
}

// ---- The receiver's side ----

void StepGets::begin(RunLane& lane, const transport::RemoteAddress& from) {
  Flow& flow = *lane.flow;
  Group& group = *flow.group;
  Operation& operation = *lane.operation;
  if (flow.far == nullptr) {
    const int world = group.ranks[std::size_t(flow.peer)];
    return parts_.outcomes.fail(
        group,
        Error(ANELLO_ERR_CORRUPT,
              parts_.job.describe(world) + " sent the address of a message, and shares no memory with this rank",
              world),
        true);
  }
  const std::size_t bytes = message_bytes(operation, lane.plan->receives[lane.next_receive]);
  std::byte* const place = landing(lane);
  const std::uint64_t region = place != nullptr ? parts_.buffers.find(place, bytes).spot.region : 0;
  const bool is_direct = region != 0;
  const bool is_combined_here = parts_.steps.is_immediate() && operation.element_bytes <= kPieceBytes;
  const bool is_ready =
      flow.far->prepare(parts_.routes.remote_peer(group, flow.peer), from.key) == transport::RemoteMemory::State::ready;
  if (!from || bytes == 0 || !is_ready || !(is_direct || is_combined_here)) return have_it_sent(lane);
  if (free_.empty()) {
    gets_.push_back(std::make_unique<StepGet>());
    free_.push_back(gets_.back().get());
    free_.reserve(gets_.size());
  }
  StepGet& get = *free_.back();
  free_.pop_back();
  get = {};
  get.lane = &lane;
  get.from = from;
  get.into = is_direct ? place : nullptr;
  get.region = region;
  get.bytes = bytes;
  lane.get = &get;
  post(get);
}

transport::RemoteMemory& StepGets::memory_of(const StepGet& get) { return *get.lane->flow->far; }

// Without memory, the communicator fails, and the get has ended.
void StepGets::post(StepGet& get) {
  Flow& flow = *get.lane->flow;
  const std::size_t element = get.lane->operation->element_bytes;
  const std::size_t most = std::max(element, kPieceBytes - kPieceBytes % element);
  parts_.outcomes.with_memory(*flow.group, [&] {
    while (get.under_way < StepGet::kDepth && get.posted < get.bytes) {
      std::byte* const slot = get.into == nullptr ? take_slot() : nullptr;
      if (get.into == nullptr && slot == nullptr) {
        if (has_no_slots_) {
          RunLane& lane = *get.lane;
          close(get);
          have_it_sent(lane);
        } else if (get.under_way == 0) {
          waiting_.push_back(&get);
        }
        return;
      }
      StepPiece& piece = get.pieces[(get.first + get.under_way) % StepGet::kDepth];
      piece = {&get, slot, std::min(most, get.bytes - get.posted), false};
      transport::Transfer transfer;
      transfer.peer = parts_.routes.remote_peer(*flow.group, flow.peer);
      transfer.at = get.from;
      transfer.at.address += get.posted;
      transfer.at.offset += get.posted;
      transfer.local = slot != nullptr ? slot : get.into + get.posted;
      transfer.bytes = piece.bytes;
      transfer.token = reinterpret_cast<std::uintptr_t>(&piece) | kOfStep;
      ++get.under_way;
      get.posted += piece.bytes;
      memory_of(get).get(transfer);
    }
  });
}

void StepGets::serve_waiting() {
  for (std::size_t count = waiting_.size(); count > 0 && !free_slots_.empty() && !waiting_.empty(); --count) {
    StepGet& next = *waiting_.front();
    waiting_.pop_front();
    post(next);
  }
}

void StepGets::piece_ended(StepPiece& piece, int error) {
  StepGet& get = *piece.of;
  RunLane& lane = *get.lane;
  Operation& operation = *lane.operation;
  // If the region's pages were exchanged meanwhile (move_region), the adapter may have stored into the old ones.
  const bool is_lost = get.into != nullptr && parts_.buffers.find(get.into, get.bytes).spot.region != get.region;
  if (error != 0 || is_lost) {
    close(get);
    have_it_sent(lane);
    return resume_early(lane);
  }
  piece.here = true;
  take_in(get);
  if (lane.received == get.bytes) {
    close(get);
    ++lane.flow->group->taken.rdma_steps;
    answer(lane, Answer::done, 0);
    frame_done(lane);
    if (operation.state == Operation::State::active) resume_early(lane);
  } else if (get.into != nullptr || waiting_.empty()) {
    post(get);
  } else if (get.under_way == 0) {
    waiting_.push_back(&get);
  }
}

// Stores or combines the pieces that are here, in their order.
void StepGets::take_in(StepGet& get) {
  RunLane& lane = *get.lane;
  while (get.under_way > 0 && get.pieces[get.first].here) {
    StepPiece& piece = get.pieces[get.first];
    if (piece.slot != nullptr) {
      apply(lane, piece.slot, piece.bytes);
      give_back_slot(piece);
    } else {
      count_received(lane, piece.bytes);
    }
    parts_.activity.count_handled(piece.bytes);
    get.first = (get.first + 1) % StepGet::kDepth;
    --get.under_way;
  }
}

void StepGets::have_it_sent(RunLane& lane) {
  lane.drops_requests = true;
  answer(lane, Answer::send, lane.received);
}

void StepGets::answer(RunLane& lane, Answer answer, std::size_t from_byte) {
  transport::FrameHeader header;
  header.kind = static_cast<std::uint16_t>(FrameKind::step_cts);
  header.communicator = lane.flow->group->id;
  header.sequence = lane.operation->sequence;
  header.digest = lane.operation->digest;
  header.flags = static_cast<std::uint16_t>(answer);
  header.argument = from_byte;
  lane.flow->notes.push_back(header);
  parts_.routes.want_to_send(*lane.flow);
}

// ---- Ends ----

// From here on it stores nothing, and the lane is free.
void StepGets::close(StepGet& get) {
  for (StepPiece& piece : get.pieces) {
    if (get.under_way > 0) memory_of(get).withdraw(reinterpret_cast<std::uintptr_t>(&piece) | kOfStep);
    if (piece.slot != nullptr) give_back_slot(piece);
  }
  std::erase(waiting_, &get);
  get.lane->get = nullptr;
  free_.push_back(&get);
}

void StepGets::close_all(Operation& operation) {
  if (operation.state != Operation::State::active) return;
  for (RunLane& lane : operation.run.lanes) {
    if (lane.get != nullptr) close(*lane.get);
  }
}

void StepGets::end(Operation& operation, bool with_error) {
  if (with_error) close_all(operation);
  for (const Lent& each : operation.lent) {
    if (with_error) each.memory->take_back(each.at);
  }
  operation.lent.clear();
}

// ---- Slots ----

std::byte* StepGets::take_slot() {
  if (slots_ == nullptr && !has_no_slots_) {
    try {
      free_slots_.reserve(kSlots);
      slots_ = memory::make_region(kSlots * kPieceBytes);
      for (std::size_t i = kSlots; i-- > 0;) free_slots_.push_back(slots_ + i * kPieceBytes);
    } catch (const Error&) {
      has_no_slots_ = true;
    }
  }
  if (free_slots_.empty()) return nullptr;
  std::byte* const slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void StepGets::give_back_slot(StepPiece& piece) { free_slots_.push_back(std::exchange(piece.slot, nullptr)); }

}  // namespace anello::executor
