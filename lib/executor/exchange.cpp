#include "executor/exchange.h"

#include "executor/run.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace anello::executor {
namespace {

using schedule::Collective;

// Reduces the lines of ranks 0 to last, each `count` elements from line(rank) on.
template <class Line>
void reduce_lines(Operation& operation, std::byte* into, int last, int size, Line&& line) {
  const kernels::Reducer& reducer = *operation.reducer;
  const std::size_t count = operation.count;
  const std::size_t element_bytes = operation.element_bytes;
  if (last == 0) {
    if (reducer.finishes) {
      reducer.finish_in_type(into, line(0), count, size);
    } else {
      if (into != line(0)) std::memcpy(into, line(0), count * element_bytes);
    }
    return;
  }
  if (!reducer.accumulates) {
    operation.combine(into, line(0), line(1), count);
    for (int peer = 2; peer <= last; ++peer) operation.combine(into, into, line(peer), count);
    if (reducer.finishes) reducer.finish_in_type(into, into, count, size);
    return;
  }
  constexpr std::size_t kPiece = 512;
  alignas(64) std::array<std::byte, kPiece * 8> sum;
  for (std::size_t done = 0; done < count; done += kPiece) {
    const std::size_t n = std::min(kPiece, count - done);
    reducer.widen(sum.data(), line(0) + done * element_bytes, n);
    for (int peer = 1; peer <= last; ++peer) reducer.accumulate(sum.data(), line(peer) + done * element_bytes, n);
    reducer.finish(into + done * element_bytes, sum.data(), n, size);
  }
}

}  // namespace

int lines_needed(const Group& group, const Operation& operation) {
  const bool root = operation.peer == group.rank;
  switch (operation.kind) {
    case ANELLO_BROADCAST:
    case ANELLO_SCATTER: return root ? Board::kNobody : operation.peer;
    case ANELLO_REDUCE:
    case ANELLO_GATHER: return root ? Board::kAll : Board::kNobody;
    default: return Board::kAll;
  }
}

void prepare_exchange(const Group& group, Operation& operation) {
  const schedule::Step& step = operation.plan->schedule.steps[0];
  Exchange& exchange = operation.exchange;
  exchange.from = operation.at(step.from);
  exchange.bytes = step.from.count * operation.element_bytes;
  exchange.needs = lines_needed(group, operation);
  exchange.into = operation.at(step.into);
  const bool by_one_reduce = group.size() == 2 && step.into.count > 0 && operation.custom == nullptr &&
                             (operation.kind == ANELLO_ALLREDUCE || operation.kind == ANELLO_REDUCE) &&
                             !operation.reducer->accumulates && !operation.reducer->finishes;
  exchange.reduce = by_one_reduce ? operation.reducer->reduce : nullptr;
}

void complete_exchange(const Group& group, Operation& operation) {
  const schedule::Step& step = operation.plan->schedule.steps[0];
  if (step.into.count == 0) return;
  std::byte* const into = operation.at(step.into);
  const int rank = group.rank;
  const int size = group.size();
  const std::size_t part = operation.count * operation.element_bytes;
  const std::size_t own = std::size_t(rank) * part;
  const std::byte* const input = operation.at(step.from);
  // The others are loading this rank's line now, so this rank reads its own payload at its source; but not if a partial
  // result of more than two lines has replaced that source.
  const auto kept = [&](const std::byte* mine) { return rank <= 1 || into != mine; };
  const auto line = [&](int peer) { return peer == rank && kept(input) ? input : group.board.payload(peer, part); };
  // Each line has a part for every rank, and this rank takes its own.
  const auto own_part = [&](int peer) {
    if (peer == rank && kept(input + own)) return input + own;
    return group.board.payload(peer, part * std::size_t(size)) + own;
  };
  const auto take_one = [&](std::byte* to, const std::byte* from) {
    if (to != from) std::memcpy(to, from, part);
  };
  const auto take = [&](auto&& from) {
    for (int peer = 0; peer < size; ++peer) take_one(into + std::size_t(peer) * part, from(peer));
  };
  switch (operation_collective(operation.kind)) {
    case Collective::allgather:
    case Collective::gather: return take(line);
    case Collective::alltoall: return take(own_part);
    case Collective::broadcast:
      if (rank != operation.peer) take_one(into, line(operation.peer));
      return;
    case Collective::scatter: take_one(into, own_part(operation.peer)); return;
    case Collective::allreduce:
    case Collective::reduce: return reduce_lines(operation, into, size - 1, size, line);
    case Collective::reduce_scatter: return reduce_lines(operation, into, size - 1, size, own_part);
    case Collective::scan: return reduce_lines(operation, into, rank, size, line);
    case Collective::exscan: return reduce_lines(operation, into, rank - 1, size, line);
    default: return;  // no data, or no exchange
  }
}

}  // namespace anello::executor
