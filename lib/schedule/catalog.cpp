#include "schedule/catalog.h"

#include "schedule/algorithms.h"
#include "schedule/hosts.h"
#include "schedule/shape.h"

#include <bit>

namespace anello::schedule {
namespace {

bool one_rank(const Call&, const Topology& topology) { return topology.size == 1; }

bool moves_data(const Call& call, const Topology& topology) { return topology.size > 1 && call.count > 0; }

bool always(const Call&, const Topology&) { return true; }
bool has_data(const Call& call, const Topology& topology) { return topology.size == 1 || call.count > 0; }

// Also without data: the call still synchronises.
bool several_ranks(const Call&, const Topology& topology) { return topology.size > 1; }
bool tokens_only(const Call& call, const Topology& topology) { return topology.size > 1 && call.count == 0; }

// Partial results are sent. Between two ranks there are none: each sum is formed and rounded once, unless it is divided
// (and rounded again) afterwards.
bool partials_travel(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && !call.invariant && (!call.accumulate || (topology.size == 2 && !call.finish));
}

// Ranks form pairs in every round.
bool pairs_off(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && std::has_single_bit(static_cast<unsigned>(topology.size));
}

bool partials_travel_in_pairs(const Call& call, const Topology& topology) {
  return partials_travel(call, topology) && pairs_off(call, topology);
}

bool between_leaders(const Call&, const Topology& topology) {
  return is_nested(topology) || takes_turns_bound(topology);
}

bool partials_travel_between_leaders(const Call& call, const Topology& topology) {
  return partials_travel(call, topology) && between_leaders(call, topology);
}

bool moves_between_hosts(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && is_nested(topology);
}

bool moves_between_processors(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && takes_turns_bound(topology);
}

bool partials_travel_between_processors(const Call& call, const Topology& topology) {
  return partials_travel(call, topology) && takes_turns_bound(topology);
}

// Ranks send only results: these are formed in rank order, and rounded if another rank also gets them.
bool results_travel(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && (!call.accumulate || topology.size == 2);
}

bool on_board(const Call& call, const Topology& topology) {
  return topology.size > 1 && topology.board &&
         largest_input(call, topology.size) * call.element_bytes <= topology.board_bytes;
}

// Over peers' memory; barriers are on the board.
bool reads_peers(const Call& call, const Topology& topology) {
  return moves_data(call, topology) && topology.board && call.reach >= Reach::read;
}
bool stores_to_peers(const Call& call, const Topology& topology) {
  return reads_peers(call, topology) && call.reach >= Reach::store;
}

// Every rank's part of either half of the staging memory has at least one element.
bool stages(const Call& call, const Topology& topology) {
  const std::size_t parts = 2 * static_cast<std::size_t>(topology.size);
  return moves_data(call, topology) && topology.board && call.element_bytes <= topology.staging_bytes / parts;
}

bool stages_between_leaders(const Call& call, const Topology& topology) {
  return stages(call, topology) && partials_travel_between_processors(call, topology);
}

// There are four steps per round, whatever the number of ranks; rounds that do not fit into a cache take half as long
// again.
constexpr std::size_t kMostCacheRounds = 16 * 1024;

}  // namespace

const std::vector<Algorithm>& catalog() {
  using enum Collective;
  static const std::vector<Algorithm> rows = {
      {"exchange", allreduce, on_board, exchange, "every rank reduces all payloads on the board"},
      {"direct", allreduce, stores_to_peers, direct_allreduce,
       "each block's owner reduces all inputs in place and stores the result into all outputs", true},
      {"central", allreduce, stores_to_peers, central_allreduce,
       "rank 0 reduces all inputs in place and stores the result into all outputs; the others wait"},
      {"attach", allreduce, reads_peers, attach_allreduce,
       "each block's owner reduces all inputs in place; all read the results from the owners", true},
      {"staged", allreduce, stages, staged_allreduce,
       "operands of other owners are copied to staging memory, and so are results"},
      {"staged_leaders", allreduce, stages_between_leaders, staged_leaders_allreduce,
       "staged within those that share processors; one rank of each reduces a block of their sums", false,
       kMostCacheRounds},
      {"ring", allreduce, partials_travel, ring_allreduce, "scatter-reduce, then allgather, around a ring", true},
      {"hierarchical", allreduce, partials_travel_between_leaders, hierarchical_allreduce,
       "reduces inside each host, then a ring across hosts for each local rank, then inside each host again", true},
      {"pairwise", allreduce, moves_data, pairwise_allreduce,
       "each block's owner gets all inputs, distributes the result", true},
      {"doubling", allreduce, partials_travel, doubling_allreduce, "whole vectors between ranks 1, 2, 4, .. apart"},
      {"halving", allreduce, partials_travel_in_pairs, halving_allreduce,
       "ranks 1, 2, .., P/2 apart exchange halves of partial sums, and results in reverse order"},
      {"leaders", allreduce, partials_travel_between_leaders, leaders_allreduce,
       "one rank of each host, or of those that share processors, reduces their vectors; they go on by doubling"},
      {"tree", allreduce, partials_travel, tree_allreduce, "up a binomial tree to rank 0, and down again"},
      {"dissemination", allreduce, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", allreduce, one_rank, alone, "one rank: a copy"},

      {"exchange", broadcast, on_board, exchange, "every rank reads the root's payload on the board"},
      {"direct", broadcast, reads_peers, direct_broadcast, "every rank reads the root's buffer"},
      {"central", broadcast, stores_to_peers, central_broadcast, "the root stores into all buffers; the others wait"},
      {"staged", broadcast, stages, staged_broadcast, "the root copies to staging memory, all others from it"},
      {"hierarchical", broadcast, moves_between_hosts, hierarchical_broadcast,
       "from host to host by a chain for each local rank, and on inside each host", true},
      {"tree", broadcast, several_ranks, tree_broadcast, "down a binomial tree, chunk by chunk"},
      {"alone", broadcast, one_rank, alone, "one rank: nothing"},

      {"exchange", allgather, on_board, exchange, "every rank reads all payloads on the board"},
      {"direct", allgather, reads_peers, direct_allgather, "every rank reads all inputs in place"},
      {"central", allgather, stores_to_peers, central_allgather,
       "rank 0 stores all inputs into all outputs; the others wait"},
      {"staged", allgather, stages, staged_allgather, "every rank copies to staging memory and from all others'"},
      {"hierarchical", allgather, moves_between_hosts, hierarchical_allgather,
       "a ring across hosts for each local rank; each host distributes its blocks inside"},
      {"leaders", allgather, moves_between_processors, leaders_allgather,
       "one of the ranks that share processors collects their parts, gets the others' and distributes all"},
      {"ring", allgather, moves_data, ring_allgather, "blocks go around a ring"},
      {"doubling", allgather, pairs_off, doubling_allgather, "ranks 1, 2, 4, .. apart exchange all their blocks"},
      {"pairwise", allgather, moves_data, pairwise_allgather, "each rank sends its block to every other"},
      {"dissemination", allgather, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", allgather, one_rank, alone, "one rank: a copy"},

      {"exchange", reduce_scatter, on_board, exchange, "every rank reduces its part of all payloads on the board"},
      {"direct", reduce_scatter, reads_peers, direct_reduce_scatter,
       "every rank reduces its part of all inputs in place"},
      {"staged", reduce_scatter, stages, staged_reduce_scatter,
       "every rank reduces its part of what all have copied to staging memory"},
      {"ring", reduce_scatter, partials_travel, ring_reduce_scatter, "partial sums go around a ring to their owners"},
      {"halving", reduce_scatter, partials_travel_in_pairs, halving_reduce_scatter,
       "ranks P/2, .., 2, 1 apart exchange halves of partial sums"},
      {"leaders", reduce_scatter, partials_travel_between_processors, leaders_reduce_scatter,
       "one of the ranks that share processors reduces their vectors, then its part of the others' sums, and "
       "distributes the result"},
      {"pairwise", reduce_scatter, moves_data, pairwise_reduce_scatter, "each block's owner gets all inputs of it"},
      {"dissemination", reduce_scatter, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", reduce_scatter, one_rank, alone, "one rank: a copy"},

      {"exchange", barrier, on_board, exchange, "every rank marks the board and waits for all marks"},
      {"leaders", barrier, between_leaders, leaders_barrier,
       "tokens to one rank of each host, or of those that share processors, among these, and back"},
      {"dissemination", barrier, several_ranks, dissemination, "tokens to ranks 1, 2, 4, .. away"},
      {"alone", barrier, one_rank, alone, "one rank: nothing"},

      {"exchange", reduce, on_board, exchange, "the root reduces all payloads on the board"},
      {"direct", reduce, stores_to_peers, direct_reduce,
       "each block's owner reduces all inputs in place and stores the result at the root", true},
      {"central", reduce, stores_to_peers, central_reduce, "the root reduces all inputs in place; the others wait"},
      {"staged", reduce, stages, staged_reduce,
       "operands of other owners are copied to staging memory, from which the root takes the results"},
      {"chain", reduce, partials_travel, chain_reduce, "partial sums go from rank to rank to the root, chunk by chunk"},
      {"pairwise", reduce, moves_data, pairwise_reduce,
       "each block's owner gets all inputs, sends the result to the root", true},
      {"tree", reduce, partials_travel, tree_reduce, "up a binomial tree to the root"},
      {"dissemination", reduce, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", reduce, one_rank, alone, "one rank: a copy"},

      {"exchange", gather, on_board, exchange, "the root reads all payloads on the board"},
      {"tree", gather, moves_data, tree_gather, "up a binomial tree, a subtree's parts together"},
      {"direct", gather, moves_data, direct_gather, "each rank sends its part to the root"},
      {"dissemination", gather, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", gather, one_rank, alone, "one rank: a copy"},

      {"exchange", scatter, on_board, exchange, "every rank reads its part of the root's payload on the board"},
      {"tree", scatter, moves_data, tree_scatter, "down a binomial tree, a subtree's parts together"},
      {"direct", scatter, moves_data, direct_scatter, "the root sends each rank its part"},
      {"dissemination", scatter, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", scatter, one_rank, alone, "one rank: a copy"},

      {"exchange", alltoall, on_board, exchange, "every rank reads its part of all payloads on the board"},
      {"direct", alltoall, reads_peers, direct_alltoall, "every rank reads its parts in place"},
      {"staged", alltoall, stages, staged_alltoall,
       "every rank copies to staging memory and takes its parts from all others'"},
      {"leaders", alltoall, moves_between_processors, leaders_alltoall,
       "one of the ranks that share processors collects their vectors, gets the others' parts for them and "
       "distributes all"},
      {"pairwise", alltoall, moves_data, pairwise_alltoall, "ranks 1, 2, 3, .. apart exchange parts"},
      {"dissemination", alltoall, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", alltoall, one_rank, alone, "one rank: a copy"},

      {"exchange", scan, on_board, exchange, "every rank reduces the payloads up to its own on the board"},
      {"chain", scan, results_travel, chain_scan, "results go from rank to rank, chunk by chunk"},
      {"doubling", scan, partials_travel, doubling_scan, "sums of 1, 2, 4, .. ranks move up by that many ranks"},
      {"pairwise", scan, moves_data, pairwise_scan, "each block's owner gets all inputs, distributes all results",
       true},
      {"dissemination", scan, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", scan, one_rank, alone, "one rank: a copy"},

      {"exchange", exscan, on_board, exchange, "every rank reduces the payloads below its own on the board"},
      {"chain", exscan, results_travel, chain_exscan, "results go from rank to rank, chunk by chunk"},
      {"doubling", exscan, partials_travel, doubling_exscan, "sums of 1, 2, 4, .. ranks move up by that many ranks"},
      {"pairwise", exscan, moves_data, pairwise_scan, "each block's owner gets all inputs, distributes all results",
       true},
      {"dissemination", exscan, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", exscan, one_rank, alone, "one rank: nothing"},

      {"direct", allgatherv, has_data, direct_varying, "each rank sends its part to every other"},
      {"ring", allgatherv, moves_data, ring_allgatherv, "parts go around a ring"},
      {"dissemination", allgatherv, tokens_only, dissemination, "no data: only the synchronisation"},
      {"direct", gatherv, always, direct_varying, "each rank sends its part to the root"},
      {"direct", scatterv, always, direct_varying, "the root sends each rank its part"},
      {"pairwise", reduce_scatterv, moves_data, pairwise_reduce_scatterv, "each block's owner gets all inputs of it"},
      {"dissemination", reduce_scatterv, tokens_only, dissemination, "no data: only the synchronisation"},
      {"alone", reduce_scatterv, one_rank, alone, "one rank: a copy"},
      {"direct", alltoallv, always, direct_varying, "each rank sends every other its part"},
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
    case Collective::reduce: return "reduce";
    case Collective::gather: return "gather";
    case Collective::scatter: return "scatter";
    case Collective::alltoall: return "alltoall";
    case Collective::scan: return "scan";
    case Collective::exscan: return "exscan";
    case Collective::allgatherv: return "allgatherv";
    case Collective::gatherv: return "gatherv";
    case Collective::scatterv: return "scatterv";
    case Collective::reduce_scatterv: return "reduce_scatterv";
    case Collective::alltoallv: return "alltoallv";
  }
  return "unknown";
}

const char* name(Space space) {
  switch (space) {
    case Space::host: return "host";
    case Space::one_device: return "one device";
    case Space::devices: return "devices";
  }
  return "unknown";
}

const char* name(Reach reach) {
  switch (reach) {
    case Reach::none: return "none";
    case Reach::read: return "read";
    case Reach::store: return "store";
  }
  return "unknown";
}

}  // namespace anello::schedule
