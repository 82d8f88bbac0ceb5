#include "executor/peer_work.h"

#include "base/clock.h"
#include "base/text.h"
#include "executor/context.h"
#include "transports/region.h"

#include <algorithm>
#include <cstring>

#include <sched.h>

namespace anello::executor {
namespace {

using schedule::Kind;
using schedule::Step;

// Between two looks at whether the others are still in the call.
constexpr std::size_t kPieceBytes = 256 * 1024;
// Of one operand: with all of them, and what they make, in the cache.
constexpr std::size_t kBlockBytes = 16 * 1024;

schedule::Slice part_of(schedule::Slice slice, std::size_t from, std::size_t count) {
  slice.offset += from;
  slice.count = count;
  return slice;
}

// dest = ranks' slices in their order. The operands may be anywhere, one of them at dest itself: partial results stay in
// memory of their own until all operands have been read.
void fold_block(Operation& operation, std::byte* dest, const schedule::Slice& from) {
  const kernels::Reducer* const reducer = operation.reducer;
  const std::size_t count = from.count;
  const int ranks = operation.group->size();
  const auto operand = [&](int rank) -> const std::byte* { return operation.at_peer(from, rank); };
  const bool divides = reducer != nullptr && reducer->finishes;
  if (ranks == 2 && !(divides && reducer->accumulates)) {
    operation.combine(dest, operand(0), operand(1), count);
    if (divides) reducer->finish_in_type(dest, dest, count, ranks);
    return;
  }
  std::vector<std::byte>& partial = operation.run.accumulator;
  const bool wide = operation.custom == nullptr && reducer->accumulates;
  const std::size_t bytes = count * (wide ? reducer->accumulator_bytes : operation.element_bytes);
  if (partial.size() < bytes) partial.resize(bytes);
  if (wide) {
    reducer->widen(partial.data(), operand(0), count);
    for (int rank = 1; rank < ranks; ++rank) reducer->accumulate(partial.data(), operand(rank), count);
    reducer->finish(dest, partial.data(), count, ranks);
    return;
  }
  operation.combine(partial.data(), operand(0), operand(1), count);
  for (int rank = 2; rank < ranks - 1; ++rank) operation.combine(partial.data(), partial.data(), operand(rank), count);
  if (ranks > 2) operation.combine(dest, partial.data(), operand(ranks - 1), count);
  if (divides) reducer->finish_in_type(dest, dest, count, ranks);
}

void do_piece(Operation& operation, const Step& step, std::size_t from, std::size_t count) {
  const std::size_t element = operation.element_bytes;
  if (step.kind == Kind::copy) {
    std::memcpy(operation.at(part_of(step.into, from, count)), operation.at(part_of(step.from, from, count)), count * element);
    return;
  }
  const bool everywhere = step.into.owner == schedule::kEach;
  const int me = operation.group->rank;
  const std::size_t block = std::max<std::size_t>(kBlockBytes / element, 1);
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t n = std::min(block, count - done);
    schedule::Slice into = part_of(step.into, from + done, n);
    // An own slice of scratch has no owner's address; every rank's is of the caller's buffers.
    std::byte* const dest = everywhere ? operation.at_peer(into, me) : operation.at(into);
    fold_block(operation, dest, part_of(step.from, from + done, n));
    if (!everywhere) continue;
    for (int rank = 0; rank < operation.group->size(); ++rank) {
      if (rank != me) std::memcpy(operation.at_peer(into, rank), dest, n * element);
    }
  }
}

}  // namespace

Worked work_at_peers(Operation& operation, std::size_t bytes, std::uint32_t* finished) {
  PeerWork& work = operation.peer_work;
  Board& board = operation.group->board;
  if (work.step == PeerWork::kNoStep) {
    if (work.next.empty()) return Worked::nothing;
    work.step = work.next.back();
    work.next.pop_back();
    work.done = 0;
  }
  if (!board.begin_touching(operation.sequence)) return Worked::nothing;
  const Step& step = operation.plan->schedule.steps[work.step];
  const std::size_t piece = std::max<std::size_t>(kPieceBytes / operation.element_bytes, 1);
  for (std::size_t moved = 0; moved < bytes && work.done < step.into.count; moved += piece * operation.element_bytes) {
    if (moved > 0 && !board.may_touch(operation.sequence)) break;
    const std::size_t count = std::min(piece, step.into.count - work.done);
    do_piece(operation, step, work.done, count);
    work.done += count;
    ++operation.movement;
    ++operation.group->movement;
  }
  board.end_touching();
  if (work.done < step.into.count) return Worked::piece;
  *finished = std::exchange(work.step, PeerWork::kNoStep);
  return Worked::step;
}

std::string keep_peers_out(Operation& operation) {
  Group& group = *operation.group;
  const control::Job& job = group.context.job();
  group.board.stop(operation.sequence);
  const Deadline limit = Deadline::in_ms(1000);
  std::string late;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    while (peer != group.rank && group.board.is_touching(peer, operation.sequence) && !job.process_ended(world)) {
      if (limit.passed()) {
        late += text(late.empty() ? "" : ", ", job.describe(world));
        break;
      }
      sched_yield();
    }
  }
  if (late.empty()) return {};
  // In whatever state its processor is stopped, it finds the old pages when it goes on, and nobody else does.
  bool moved = true;
  for (const void* buffer : {static_cast<const void*>(operation.output), static_cast<const void*>(operation.own_input())}) {
    if (buffer != nullptr) moved = transport::move_region(buffer) && moved;
  }
  return text("; ", late, " was stopped in the middle of the call",
              moved ? ", and the memory that it could still store to was exchanged for a copy"
                    : ", and may still store to this rank's buffer when it goes on: do not use it");
}

}  // namespace anello::executor
