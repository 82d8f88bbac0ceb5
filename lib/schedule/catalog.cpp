#include "schedule/catalog.h"

#include "schedule/algorithms.h"

namespace anello::schedule {
namespace {

bool one_rank(const Call&, const Topology& topology) { return topology.size == 1; }

bool moves_data(const Call& call, const Topology& topology) { return topology.size > 1 && call.count > 0; }

// Also without data: the call synchronises all the same.
bool several_ranks(const Call&, const Topology& topology) { return topology.size > 1; }
bool tokens_only(const Call& call, const Topology& topology) { return topology.size > 1 && call.count == 0; }

// Partial results travel. Between two ranks there are none: each sum is formed and rounded once, unless it is divided
// (and rounded again) afterwards.
bool partials_travel(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && !call.invariant &&
         (!call.accumulate || (topology.size == 2 && !call.finish));
}

bool on_board(const Call& call, const Topology& topology) {
  const std::size_t parts = call.collective == Collective::reduce_scatter ? static_cast<std::size_t>(topology.size) : 1;
  return topology.size > 1 && topology.board && call.count * parts * call.element_bytes <= topology.board_bytes;
}

}  // namespace

const std::vector<Algorithm>& catalog() {
  using enum Collective;
  static const std::vector<Algorithm> rows = {
      {"exchange", allreduce, on_board, exchange, "every rank folds all payloads on the board"},
      {"ring", allreduce, partials_travel, ring_allreduce, "scatter-reduce, then allgather, around a ring",
       true},
      {"pairwise", allreduce, moves_data, pairwise_allreduce, "each block's owner gets all inputs, hands out the result",
       true},
      {"doubling", allreduce, partials_travel, doubling_allreduce, "whole vectors between ranks 1, 2, 4, .. apart"},
      {"tree", allreduce, partials_travel, tree_allreduce, "up a binomial tree to rank 0, and down again"},
      {"dissemination", allreduce, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", allreduce, one_rank, alone, "one rank: a copy"},

      {"tree", broadcast, several_ranks, tree_broadcast, "down a binomial tree, chunk by chunk"},
      {"alone", broadcast, one_rank, alone, "one rank: nothing"},

      {"exchange", allgather, on_board, exchange, "every rank reads all payloads on the board"},
      {"ring", allgather, moves_data, ring_allgather, "blocks go around a ring"},
      {"pairwise", allgather, moves_data, pairwise_allgather, "each rank sends its block to every other"},
      {"dissemination", allgather, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", allgather, one_rank, alone, "one rank: a copy"},

      {"exchange", reduce_scatter, on_board, exchange, "every rank folds its part of all payloads on the board"},
      {"ring", reduce_scatter, partials_travel, ring_reduce_scatter, "partial sums go around a ring to their owners"},
      {"pairwise", reduce_scatter, moves_data, pairwise_reduce_scatter, "each block's owner gets all inputs of it"},
      {"dissemination", reduce_scatter, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", reduce_scatter, one_rank, alone, "one rank: a copy"},

      {"exchange", barrier, on_board, exchange, "every rank marks the board and waits for all marks"},
      {"dissemination", barrier, several_ranks, dissemination, "tokens to ranks 1, 2, 4, .. away"},
      {"alone", barrier, one_rank, alone, "one rank: nothing"},
  };
  return rows;
}

const Algorithm* find(Collective collective, std::string_view name) {
  for (const Algorithm& row : catalog())
    if (row.collective == collective && row.name == name) return &row;
  return nullptr;
}

const char* name(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return "allreduce";
    case Collective::broadcast: return "broadcast";
    case Collective::allgather: return "allgather";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::barrier: return "barrier";
  }
  return "unknown";
}

}  // namespace anello::schedule
