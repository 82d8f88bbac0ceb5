#include "executor/peer_work.h"

#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/steps.h"
#include "memory/region.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sched.h>

namespace anello::executor {
namespace {

using schedule::Kind;
using schedule::Step;

// This rank checks after each piece whether the others are still in the call. A device moves the larger one in some
// milliseconds, and its kernels cost microseconds each.
constexpr std::size_t kPieceBytes = 256 * 1024, kDevicePieceBytes = std::size_t{1} << 30;

// The error to report; none if the peer has gone, of which control has the better account in a moment.
Error error_of(const Operation& operation, const ReadFailure& failure) {
  if (failure.error == ESRCH) return {};
  const int world = operation.group->ranks[std::size_t(failure.rank)];
  const transport::RemoteMemory* const remote = operation.group->parts.routes.memory_of(*operation.group, failure.rank);
  return {failure.error == EFAULT ? ANELLO_ERR_ARGUMENT : ANELLO_ERR_SYSTEM,
          text(failure.bytes, " bytes of the buffer of ", operation.group->parts.job.describe(world),
               " cannot be read: ", system_text(remote->call(), failure.error),
               failure.error == EFAULT
                   ? "; it was given a buffer that is shorter than the call says, or freed it, or one that others "
                     "cannot read (see ANELLO_STAGING)"
                   : ""),
          world};
}

Worked cannot_read(Operation& operation, const ReadFailure& failure) {
  Group& group = *operation.group;
  if (const Error error = error_of(operation, failure)) {
    group.parts.outcomes.fail(group, error, true);
  } else {
    operation.peer_work.without = failure.rank;
  }
  return Worked::nothing;
}

void count_done(Operation& operation, std::size_t elements) {
  operation.peer_work.done += elements;
  ++operation.movement;
  ++operation.group->movement;
}

Worked worked(Operation& operation, std::uint32_t* finished) {
  PeerWork& work = operation.peer_work;
  if (work.done < operation.plan->schedule.steps[work.step].into.count) return Worked::piece;
  *finished = std::exchange(work.step, PeerWork::kNoStep);
  return Worked::step;
}

}  // namespace

Worked work_at_peers(Operation& operation, std::size_t bytes, std::uint32_t* finished) {
  PeerWork& work = operation.peer_work;
  if (work.pending > 0) return Worked::nothing;
  Board& board = operation.group->board;
  if (work.step == PeerWork::kNoStep) {
    if (work.next.empty()) return Worked::nothing;
    work.step = work.next.back();
    work.next.pop_back();
    work.done = 0;
  }
  // Staged data is in no caller's buffer.
  const bool exposes = operation.exposed;
  if (exposes && !board.begin_touching(operation.sequence)) return Worked::nothing;
  const Step& step = operation.plan->schedule.steps[work.step];
  const std::size_t piece_bytes = operation.is_in_place() ? kDevicePieceBytes : kPieceBytes;
  const std::size_t piece = std::max<std::size_t>(piece_bytes / operation.element_bytes, 1);
  try {
    for (std::size_t moved = 0; moved < bytes && work.done < step.into.count;
         moved += piece * operation.element_bytes) {
      if (exposes && moved > 0 && !board.may_touch(operation.sequence)) break;
      const std::size_t count = std::min(piece, step.into.count - work.done);
      if (!operation.group->parts.steps.issue(operation, Ticket::Part::piece, 0,
                                              resolve(operation, step, work.done, count))) {
        work.pending = count;  // until it ends, this rank is at the peers' buffers
        return Worked::piece;
      }
      count_done(operation, count);
    }
  } catch (const ReadFailure& failure) {
    board.end_touching();
    return cannot_read(operation, failure);
  }
  board.end_touching();
  return worked(operation, finished);
}

Worked piece_done(Operation& operation, const std::optional<ReadFailure>& failure, std::uint32_t* finished) {
  const std::size_t count = std::exchange(operation.peer_work.pending, 0);
  operation.group->board.end_touching();
  if (failure) return cannot_read(operation, *failure);
  count_done(operation, count);
  return worked(operation, finished);
}

std::string keep_peers_out(Operation& operation) {
  Group& group = *operation.group;
  const control::Job& job = group.parts.job;
  group.board.stop(operation.sequence);
  const Deadline limit = Deadline::in_ms(kKeepOutMs);
  std::string late;
  bool by_address = false;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    while (peer != group.rank && group.board.is_touching(peer, operation.sequence) && !job.process_ended(world)) {
      if (limit.passed()) {
        late += text(late.empty() ? "" : ", ", job.describe(world));
        by_address = by_address || group.parts.routes.shares_addresses(group, peer);
        break;
      }
      sched_yield();
    }
  }
  if (late.empty()) return {};
  if (operation.is_in_place()) {
    return text("; ", late,
                " or its device has not ended what it does in this call, and may still store to this rank's "
                "buffer: do not use it");
  }
  // In whatever state the peer is stopped, it finds the old pages when it goes on, and no other process does. It cannot
  // harm memory that it can only read.
  bool moved = true, can_store = false;
  for (const void* buffer :
       {static_cast<const void*>(operation.output), static_cast<const void*>(operation.own_input())}) {
    if (buffer == nullptr || (!by_address && memory::find_region(buffer, 1).region == 0)) continue;
    can_store = true;
    moved = memory::move_region(buffer) && moved;
  }
  return text("; ", late, " was stopped in the middle of the call",
              !can_store ? ""
              : moved    ? ", and the memory that it could still store to was exchanged for a copy"
                         : ", and may still store to this rank's buffer when it goes on: do not use it");
}

}  // namespace anello::executor
