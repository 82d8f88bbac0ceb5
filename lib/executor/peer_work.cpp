#include "executor/peer_work.h"

#include "base/clock.h"
#include "base/text.h"
#include "executor/context.h"
#include "transports/process_memory.h"
#include "transports/region.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sched.h>

namespace anello::executor {
namespace {

using schedule::Kind;
using schedule::Step;

// Between two looks at whether the others are still in the call.
constexpr std::size_t kPieceBytes = 256 * 1024;
// Of one operand: with all of them, and what they make, in the cache.
constexpr std::size_t kBlockBytes = 8 * 1024;

// The same of operands that are read by system call, each of which costs as much as a few KiB.
constexpr std::size_t kReadBlockBytes = 128 * 1024;

// A peer's memory could not be read after all.
struct ReadFailure {
  int rank;
  int error;  // an errno
  std::size_t bytes;
};

schedule::Slice part_of(schedule::Slice slice, std::size_t from, std::size_t count) {
  slice.offset += from;
  slice.count = count;
  return slice;
}

void read_peer(const Operation& operation, const schedule::Slice& slice, int rank, std::byte* into) {
  const std::size_t bytes = slice.count * operation.element_bytes;
  const int error = transport::read_process(operation.buffer_of(slice, rank).process,
                                            reinterpret_cast<std::uintptr_t>(operation.at_peer(slice, rank)), into, bytes);
  if (error != 0) throw ReadFailure{rank, error, bytes};
}

// A rank's slice where it can be loaded from: there, or read into `landing`.
const std::byte* operand_of(Operation& operation, const schedule::Slice& slice, int rank, std::byte* landing) {
  if (operation.buffer_of(slice, rank).process == 0) return operation.at_peer(slice, rank);
  read_peer(operation, slice, rank, landing);
  return landing;
}

// Elements of an operand at a time: what is folded stays in the cache with all that it is made of.
std::size_t block_of(const Operation& operation, const Step& step) {
  bool reads = false;
  for (int rank = 0; rank < operation.group->size() && step.kind == Kind::fold; ++rank) {
    reads = reads || operation.buffer_of(step.from, rank).process != 0;
  }
  return std::max<std::size_t>((reads ? kReadBlockBytes : kBlockBytes) / operation.element_bytes, 1);
}

// dest, and twin if there is one, = ranks' slices in their order. The operands may be anywhere, one of them at dest itself and
// one at twin: partial results stay in memory of their own until all operands have been read.
// place(rank, landing): where its operand can be loaded from, perhaps read to there.
template <class Place>
void fold_block(Operation& operation, std::byte* dest, std::byte* twin, std::size_t count, Place&& place) {
  const kernels::Reducer* const reducer = operation.reducer;
  const int ranks = operation.group->size();
  const bool divides = reducer != nullptr && reducer->finishes;
  const bool at_once = ranks == 2 && !(divides && reducer->accumulates);
  const bool wide = !at_once && operation.custom == nullptr && reducer->accumulates;

  // First what is read of peers (two operands are in use at a time), then the partial result.
  constexpr std::size_t kAlign = 64;
  const std::size_t landing = (count * operation.element_bytes + kAlign - 1) / kAlign * kAlign;
  std::vector<std::byte>& memory = operation.run.accumulator;
  const std::size_t bytes = 2 * landing + (at_once ? 0 : count * (wide ? reducer->accumulator_bytes : operation.element_bytes));
  if (memory.size() < bytes) memory.resize(bytes);
  const auto operand = [&](int rank) { return place(rank, memory.data() + std::size_t(rank % 2) * landing); };
  std::byte* const partial = memory.data() + 2 * landing;

  if (wide) {
    reducer->widen(partial, operand(0), count);
    for (int rank = 1; rank < ranks; ++rank) reducer->accumulate(partial, operand(rank), count);
    reducer->finish(dest, partial, count, ranks);
  } else {
    const std::byte* left = operand(0);
    for (int rank = 1; rank < ranks - 1; ++rank) {
      operation.combine(partial, left, operand(rank), count);
      left = partial;
    }
    const std::byte* const last = operand(ranks - 1);
    if (twin != nullptr && !divides) return operation.combine_twice(dest, twin, left, last, count);
    operation.combine(dest, left, last, count);
    if (divides) reducer->finish_in_type(dest, dest, count, ranks);
  }
  if (twin != nullptr) std::memcpy(twin, dest, count * operation.element_bytes);
}

void do_piece(Operation& operation, const Step& step, std::size_t from, std::size_t count) {
  const std::size_t element = operation.element_bytes;
  if (step.kind == Kind::copy) {
    const schedule::Slice part = part_of(step.from, from, count);
    std::byte* const into = operation.at(part_of(step.into, from, count));
    const bool staged = part.buffer == schedule::Buffer::staging;
    if (part.owner != schedule::kOwn && !staged && operation.buffer_of(part, part.owner).process != 0) {
      read_peer(operation, part, part.owner, into);
    } else {
      std::memcpy(into, operation.at(part), count * element);
    }
    return;
  }
  const bool everywhere = step.into.owner == schedule::kEach;
  const int me = operation.group->rank;
  const std::size_t block = block_of(operation, step);
  const bool shows = step.shown != schedule::kNotShown;
  transport::PieceCopy& copies = operation.group->context.copies_to_peers();
  const bool streams = shows && copies.streams();
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t n = std::min(block, count - done);
    schedule::Slice into = part_of(step.into, from + done, n);
    // An own slice of scratch has no owner's address; every rank's is of the caller's buffers.
    std::byte* const dest = everywhere ? operation.at_peer(into, me) : operation.at(into);
    const schedule::Slice operands = part_of(step.from, from + done, n);
    if (step.kind == Kind::fold_staged) {
      const std::size_t staged = step.staged + from + done;
      std::byte* const twin = shows && !streams ? operation.at_staging(me, step.shown + from + done) : nullptr;
      fold_block(operation, dest, twin, n, [&](int rank, std::byte*) -> const std::byte* {
        return rank == me ? operation.at(operands) : operation.at_staging(rank, staged);
      });
      continue;
    }
    const int twin = everywhere ? (me + 1) % operation.group->size() : me;
    fold_block(operation, dest, twin == me ? nullptr : operation.at_peer(into, twin), n,
               [&](int rank, std::byte* landing) { return operand_of(operation, operands, rank, landing); });
    if (!everywhere) continue;
    for (int rank = 0; rank < operation.group->size(); ++rank) {
      if (rank != me && rank != twin) std::memcpy(operation.at_peer(into, rank), dest, n * element);
    }
  }
  if (streams) copies.copy(operation.at_staging(me, step.shown + from), operation.at(part_of(step.into, from, count)), count * element);
}

// What to say of it; nothing where the peer has gone, of which control has the better account in a moment.
Error error_of(const Operation& operation, const ReadFailure& failure) {
  if (failure.error == ESRCH) return {};
  const int world = operation.group->ranks[std::size_t(failure.rank)];
  return {failure.error == EFAULT ? ANELLO_ERR_ARGUMENT : ANELLO_ERR_SYSTEM,
          text(failure.bytes, " bytes of the buffer of ", operation.group->context.job().describe(world), " cannot be read: ",
               system_text("process_vm_readv", failure.error),
               failure.error == EFAULT ? "; it was given a buffer that is shorter than the call says, or freed it" : ""),
          world};
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
  // What is staged is no caller's.
  const bool exposes = operation.exposed;
  if (exposes && !board.begin_touching(operation.sequence)) return Worked::nothing;
  const Step& step = operation.plan->schedule.steps[work.step];
  const std::size_t piece = std::max<std::size_t>(kPieceBytes / operation.element_bytes, 1);
  try {
    for (std::size_t moved = 0; moved < bytes && work.done < step.into.count; moved += piece * operation.element_bytes) {
      if (exposes && moved > 0 && !board.may_touch(operation.sequence)) break;
      const std::size_t count = std::min(piece, step.into.count - work.done);
      do_piece(operation, step, work.done, count);
      work.done += count;
      ++operation.movement;
      ++operation.group->movement;
    }
  } catch (const ReadFailure& failure) {
    board.end_touching();
    Group& group = *operation.group;
    if (const Error error = error_of(operation, failure)) group.context.fail(group, error, true);
    return Worked::nothing;
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
  bool by_address = false;
  for (int peer = 0; peer < group.size(); ++peer) {
    const int world = group.ranks[std::size_t(peer)];
    while (peer != group.rank && group.board.is_touching(peer, operation.sequence) && !job.process_ended(world)) {
      if (limit.passed()) {
        late += text(late.empty() ? "" : ", ", job.describe(world));
        by_address = by_address || group.context.is_thread(group, peer);
        break;
      }
      sched_yield();
    }
  }
  if (late.empty()) return {};
  // In whatever state its processor is stopped, it finds the old pages when it goes on, and nobody else does. What it can
  // only read it does no harm.
  bool moved = true, can_store = false;
  for (const void* buffer : {static_cast<const void*>(operation.output), static_cast<const void*>(operation.own_input())}) {
    if (buffer == nullptr || (!by_address && transport::find_region(buffer, 1).region == 0)) continue;
    can_store = true;
    moved = transport::move_region(buffer) && moved;
  }
  return text("; ", late, " was stopped in the middle of the call",
              !can_store ? ""
              : moved    ? ", and the memory that it could still store to was exchanged for a copy"
                         : ", and may still store to this rank's buffer when it goes on: do not use it");
}

}  // namespace anello::executor
