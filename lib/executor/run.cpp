#include "executor/run.h"

#include "base/kind.h"
#include "base/text.h"
#include "executor/kept_frames.h"
#include "executor/outcomes.h"
#include "executor/rounds.h"
#include "executor/routes.h"
#include "executor/shadows.h"
#include "executor/step_gets.h"
#include "executor/steps.h"
#include "executor/supervision.h"
#include "executor/peer_work.h"
#include "executor/route.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace anello::executor {

using schedule::Buffer;
using schedule::Kind;
using schedule::Step;

namespace {

const Step& step_at(const Operation& operation, std::uint32_t step) { return operation.plan->schedule.steps[step]; }

bool send_ready(const RunLane& lane) {
  return lane.next_send < lane.plan->sends.size() && lane.operation->run.waits[lane.plan->sends[lane.next_send]] == 0;
}

// Resolves arrived bytes of the current receive, which follow those in place.
ResolvedStep resolve_arrival(const RunLane& lane, const std::byte* data, std::size_t bytes) {
  Operation& operation = *lane.operation;
  const Step& step = step_at(operation, lane.plan->receives[lane.next_receive]);
  const std::size_t done = lane.received / operation.element_bytes;
  ResolvedStep arrival;
  arrival.count = bytes / operation.element_bytes;
  arrival.bytes = bytes;
  arrival.from[0] = data;
  arrival.into[0] = operation.at(part_of(step.into, done, arrival.count));
  if (bytes == 0) return arrival;
  if (step.into.buffer == Buffer::accumulator) {
    arrival.action = step.kind == Kind::recv ? Action::widen : Action::accumulate;
  } else if (step.kind == Kind::recv) {
    arrival.action = Action::copy;
  } else {
    arrival.action = Action::combine;
    arrival.from[step.reversed ? 1 : 0] = operation.at(part_of(step.from, done, arrival.count));
    arrival.from[step.reversed ? 0 : 1] = data;
  }
  return arrival;
}

// Starts everything on the ready stack. Local steps run at once and push their followers.
void start_ready(Operation& operation) {
  Run& run = operation.run;
  run.starting = true;
  while (!run.ready.empty()) {
    const std::uint32_t index = run.ready.back();
    run.ready.pop_back();
    const Step& step = step_at(operation, index);
    switch (step.kind) {
      case Kind::send: queue_sends(run.lanes[operation.plan->lane_of_step[index]]); break;
      case Kind::recv:
      case Kind::recv_reduce: {
        RunLane& lane = run.lanes[operation.plan->lane_of_step[index]];
        if (!lane.early.empty()) resume_early(lane);
        if (operation.state != Operation::State::active) return;
        break;
      }
      case Kind::exchange:
        if (!operation.announces()) operation.group->on_board.push(&operation);  // otherwise it is there already
        operation.group->parts.rounds.begin(operation, Round::exchange);
        if (operation.state != Operation::State::active) return;
        break;
      case Kind::barrier:
        operation.barrier_step = index;
        operation.group->parts.rounds.begin(operation, Round::barrier);
        if (operation.state != Operation::State::active) return;
        break;
      default:
        if (schedule::touches_peers(step)) {
          operation.peer_work.next.push_back(index);
          operation.group->parts.steps.work(operation);
          if (operation.state != Operation::State::active) return;
          break;
        }
        if (operation.group->parts.steps.issue(operation, Ticket::Part::step, index,
                                               resolve(operation, step, 0, step.into.count)))
          step_done(operation, index);
        if (operation.state != Operation::State::active) return;
    }
  }
  run.starting = false;
}

}  // namespace

void count_received(RunLane& lane, std::size_t bytes) {
  lane.received += bytes;
  ++lane.operation->movement;
  ++lane.operation->group->movement;
}

void queue_sends(RunLane& lane) {
  if (lane.queued || !send_ready(lane)) return;
  lane.queued = true;
  lane.flow->steps.push(&lane);
  lane.operation->group->parts.routes.want_to_send(*lane.flow);
}

void pass_send(RunLane& lane) {
  ++lane.next_send;
  if (send_ready(lane)) return;
  lane.flow->steps.remove(&lane);
  lane.queued = false;
}

void take_memory(Operation& operation) {
  const schedule::Schedule& schedule = operation.plan->schedule;
  Run& run = operation.run;
  if (run.serves == operation.plan && run.served_element_bytes == operation.element_bytes &&
      run.served_reducer == operation.reducer)
    return;
  run.waits.reserve(schedule.steps.size());
  run.ready.reserve(schedule.steps.size());
  if (schedule.lanes.empty()) operation.peer_work.next.reserve(schedule.steps.size());
  const std::size_t scratch = schedule.scratch * operation.element_bytes;
  const bool is_lent = operation.group->has_far_peers && scratch > kMostEagerBytes;
  if (scratch > 0 && !operation.is_in_place()) run.scratch.provide(scratch, is_lent);
  if (schedule.accumulator > 0 &&
      run.accumulator.size() < schedule.accumulator * operation.reducer->accumulator_bytes) {
    run.accumulator.resize(schedule.accumulator * operation.reducer->accumulator_bytes);
  }
  run.serves = operation.plan;
  run.served_element_bytes = operation.element_bytes;
  run.served_reducer = operation.reducer;
}

namespace {

void open_lanes(Operation& operation) {
  Group& group = *operation.group;
  const schedule::Schedule& schedule = operation.plan->schedule;
  Run& run = operation.run;
  run.lanes.resize(schedule.lanes.size());
  for (std::size_t i = 0; i < run.lanes.size(); ++i) {
    RunLane& lane = run.lanes[i];
    lane = RunLane{};
    lane.operation = &operation;
    lane.plan = &schedule.lanes[i];
    lane.flow = &group.flows.to(lane.plan->peer);
    // Takes the frames that came before this rank entered the operation.
    for (EarlyFrame* frame = lane.flow->early.front();
         frame != nullptr && !control::before(operation.sequence, frame->header.sequence);) {
      EarlyFrame* const next = EarlyFrames::after(frame);
      if (frame->header.sequence == operation.sequence) {
        lane.flow->early.remove(frame);
        if (frame->header.digest == operation.digest) {
          lane.early.push(frame);
        } else {
          // The frame is of another call: the verdict ends both, and until then no such frame may pass for data.
          group.parts.supervision.suspect(group, operation.sequence, lane.plan->peer);
          group.parts.frames.give_back(frame);
        }
      }
      frame = next;
    }
  }
}

// The step's followers wait for one step less; ready() gets each that waits for none.
template <class Ready>
void let_follow(Operation& operation, std::uint32_t index, Ready&& ready) {
  const schedule::Schedule& schedule = operation.plan->schedule;
  for (std::uint32_t i = schedule.follower_begin[index + 1]; i-- > schedule.follower_begin[index];) {
    const std::uint32_t follower = schedule.followers[i];
    if (--operation.run.waits[follower] == 0) ready(follower);
  }
}

// All steps are done.
void all_done(Operation& operation) {
  Parts& parts = operation.group->parts;
  if (operation.staged.result != nullptr) {
    ResolvedStep delivery;
    delivery.action = Action::deliver;
    if (!parts.steps.issue(operation, Ticket::Part::delivery, 0, delivery)) return;
  }
  parts.outcomes.finish(operation);
}

}  // namespace

void begin(Operation& operation, std::uint32_t first) {
  const schedule::Schedule& schedule = operation.plan->schedule;
  Run& run = operation.run;
  operation.state = Operation::State::active;
  take_memory(operation);
  run.waits.assign(schedule.waits.begin(), schedule.waits.end());
  if (operation.shadow != nullptr) hold_steps(operation);
  run.unfinished = static_cast<std::uint32_t>(schedule.steps.size()) - first;
  open_lanes(operation);
  run.ready.clear();
  run.starting = false;
  if (run.unfinished == 0) {
    all_done(operation);
    return;
  }
  for (std::uint32_t step = 0; step < first; ++step) let_follow(operation, step, [](std::uint32_t) {});
  // Backwards, so that the stack gives them in program order. The step that walk() left unfinished goes on below.
  const std::uint32_t amid = operation.peer_work.step;
  for (auto step = std::uint32_t(schedule.steps.size()); step-- > first;) {
    if (run.waits[step] == 0 && step != amid) run.ready.push_back(step);
  }
  start_ready(operation);
  if (amid != PeerWork::kNoStep && operation.state == Operation::State::active)
    operation.group->parts.steps.work(operation);
}

std::uint32_t walk(Operation& operation, std::uint32_t first, std::size_t* most) {
  const std::vector<Step>& steps = operation.plan->schedule.steps;
  if (first == 0) take_memory(operation);
  std::uint32_t at = first;
  for (; at < steps.size() && steps[at].kind != Kind::barrier && *most > 0; ++at) {
    const Step& step = steps[at];
    if (schedule::touches_peers(step)) {
      operation.peer_work.next.push_back(at);
      std::uint32_t finished = 0;
      if (work_at_peers(operation, *most, &finished) != Worked::step) break;
    } else {
      run_step(operation, resolve(operation, step, 0, step.into.count));
    }
    *most -= std::min(*most, step.into.count * operation.element_bytes);
  }
  return at;
}

void pieces_came(Operation& operation) {
  Pieces& pieces = operation.shadow->pieces;
  Run& run = operation.run;
  ++operation.movement;
  ++operation.group->movement;
  for (; pieces.released < pieces.held.size() && pieces.held[pieces.released].until <= pieces.here; ++pieces.released) {
    const std::uint32_t step = pieces.held[pieces.released].step;
    if (--run.waits[step] == 0) run.ready.push_back(step);
  }
  if (!run.starting) start_ready(operation);
}

void step_done(Operation& operation, std::uint32_t index) {
  Run& run = operation.run;
  ++operation.movement;
  ++operation.group->movement;
  if (operation.shadow != nullptr && operation.shadow->pieces.go_back)
    operation.group->parts.shadows.give_back(operation, index);
  let_follow(operation, index, [&](std::uint32_t follower) { run.ready.push_back(follower); });
  if (--run.unfinished == 0) {
    all_done(operation);
    return;
  }
  if (!run.starting) start_ready(operation);
}

namespace {

// The kept frame has been used.
void let_go(RunLane& lane, EarlyFrame* frame) {
  const std::size_t bytes = frame->header.bytes;
  Parts& parts = lane.flow->group->parts;
  parts.frames.give_back(frame);
  lane.flow->credit.steps.no_longer_keeps(bytes);
  parts.kept.consumed(*lane.flow, bytes);
}

void begin_get(RunLane& lane, EarlyFrame* request) {
  transport::RemoteAddress from;
  std::memcpy(&from, request->payload.data(), kAddressBytes);
  let_go(lane, request);
  lane.flow->group->parts.step_gets.begin(lane, from);
}

}  // namespace

void resume_early(RunLane& lane) {
  while (EarlyFrame* const frame = lane.early.front()) {
    const bool is_request = is_step_rts(frame->header);
    if (is_request && lane.drops_requests) {
      let_go(lane, lane.early.pop());
      continue;
    }
    if (lane.is_busy() || !receive_ready(lane)) return;
    if (!fits(lane, frame->header)) return;
    lane.early.pop();
    if (is_request) {
      begin_get(lane, frame);
      continue;
    }
    lane.applied = frame;
    const auto index = std::uint32_t(&lane - lane.operation->run.lanes.data());
    const ResolvedStep arrival = resolve_arrival(lane, frame->payload.data(), frame->header.bytes);
    if (!lane.flow->group->parts.steps.issue(*lane.operation, Ticket::Part::arrival, index, arrival) ||
        !arrival_done(lane))
      return;
  }
}

bool arrival_done(RunLane& lane) {
  EarlyFrame* const frame = std::exchange(lane.applied, nullptr);
  Operation& operation = *lane.operation;
  count_received(lane, frame->header.bytes);
  let_go(lane, frame);
  frame_done(lane);
  return operation.state == Operation::State::active;
}

void lines_taken(Operation& operation) {
  operation.group->parts.rounds.leave_exchange(*operation.group);
  step_done(operation, 0);
}

bool fits(const RunLane& lane, const transport::FrameHeader& header) {
  Operation& operation = *lane.operation;
  const std::size_t expected = message_bytes(operation, lane.plan->receives[lane.next_receive]);
  const std::size_t left = expected - lane.received;
  const bool same = message_bytes_of(header) == message_bytes_of(telling(expected));
  const bool is_right = is_step_rts(header) ? has_address(header) && lane.received == 0
                                            : header.bytes <= left && header.bytes % operation.element_bytes == 0;
  if (same && is_right) return true;
  Group& group = *operation.group;
  const int world = group.ranks[std::size_t(lane.plan->peer)];
  if (!same && kind_is_varying(operation.kind)) {
    group.parts.outcomes.fail(
        group,
        Error(ANELLO_ERR_MISMATCH,
              text("ranks disagree on operation ", operation.sequence, ", ", kind_name(operation.kind), ": rank ",
                   lane.plan->peer, " sends ", message_bytes_of(header) / operation.element_bytes, " elements to rank ",
                   group.rank, ", which expects ", expected / operation.element_bytes),
              world),
        true);
    return false;
  }
  group.parts.outcomes.fail(
      group,
      Error(ANELLO_ERR_CORRUPT, group.parts.job.describe(world) + " sent a frame of another size than the schedule has",
            world),
      true);
  return false;
}

bool receive_ready(const RunLane& lane) {
  return lane.next_receive < lane.plan->receives.size() &&
         lane.operation->run.waits[lane.plan->receives[lane.next_receive]] == 0;
}

std::size_t message_bytes(const Operation& operation, std::uint32_t index) {
  const Step& step = step_at(operation, index);
  return (step.kind == Kind::send ? step.from.count : step.into.count) * operation.element_bytes;
}

std::byte* landing(const RunLane& lane) {
  const Step& step = step_at(*lane.operation, lane.plan->receives[lane.next_receive]);
  if (step.kind != Kind::recv || step.into.buffer == Buffer::accumulator) return nullptr;
  return lane.operation->at(step.into) + lane.received;
}

void apply(RunLane& lane, const std::byte* data, std::size_t bytes) {
  const auto index = std::uint32_t(&lane - lane.operation->run.lanes.data());
  lane.flow->group->parts.steps.issue(*lane.operation, Ticket::Part::arrival, index,
                                      resolve_arrival(lane, data, bytes));
  count_received(lane, bytes);
}

void frame_done(RunLane& lane) {
  Operation& operation = *lane.operation;
  const std::uint32_t step = lane.plan->receives[lane.next_receive];
  if (lane.received < message_bytes(operation, step)) return;
  lane.received = 0;
  ++lane.next_receive;
  step_done(operation, step);
}

}  // namespace anello::executor
