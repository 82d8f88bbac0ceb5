#pragma once
// The algorithms, each in the file of its name. All have the signature of Algorithm::make and return this rank's
// schedule; chunk is in elements and at least 1. catalog.cpp says which calls each algorithm can do.
#include "schedule/schedule.h"

#include <cstddef>

namespace anello::schedule {

// alone.cpp: one rank; no communication.
Schedule alone(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// exchange.cpp: all ranks' payloads on the board, in one step.
Schedule exchange(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// ring.cpp: full links both ways, 2(P-1)/P of the bytes, P-1 hops per part.
Schedule ring_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule ring_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule ring_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule ring_allgatherv(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// halving.cpp: ranks 1, 2, 4, .. apart exchange halves: the ring's bytes, fewest hops.
Schedule halving_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule halving_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule doubling_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// hierarchical.cpp: inside each host, then in a ring of hosts for each local rank: 2(H-1)/H of the bytes leave a host.
// An all-reduce can also use the ranks of a processor instead of those of a host.
Schedule hierarchical_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule hierarchical_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule hierarchical_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// pairwise.cpp: every owner gets all inputs of its block: the ring's bytes, one hop per part, and no partial sums are
// sent.
Schedule pairwise_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule pairwise_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule pairwise_reduce_scatterv(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule pairwise_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule pairwise_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// pairwise_scan.cpp: scan and exscan by owners of blocks.
Schedule pairwise_scan(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// alltoall.cpp: ranks 1, 2, 3, .. apart exchange parts.
Schedule pairwise_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// peers_memory.cpp: every rank loads its operands from the peers' buffers; if stores are possible, it also stores the
// results of a reduction into them.
Schedule direct_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule attach_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule direct_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule direct_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule direct_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule direct_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule direct_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule staged_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule staged_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule staged_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule staged_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule staged_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule staged_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// central.cpp: one rank works in the memory of all.
Schedule central_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule central_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule central_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule central_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// staged_leaders.cpp: if ranks share processors, the ranks of each processor send one sum to the others.
Schedule staged_leaders_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// chain.cpp: from rank to rank, chunk by chunk: each link carries the vector once.
Schedule chain_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule chain_scan(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule chain_exscan(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// direct.cpp: between the root and each rank.
Schedule direct_gather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule direct_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// varying.cpp: the forms whose counts differ: each pair of ranks exchanges its parts.
Schedule direct_varying(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// doubling.cpp: whole vectors between ranks 1, 2, 4, .. apart: fewest hops.
Schedule doubling_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// doubling_scan.cpp: sums of 1, 2, 4, .. ranks move up by that many ranks.
Schedule doubling_scan(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule doubling_exscan(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// leaders.cpp: each host's vectors go to one of its ranks, and these ranks continue by doubling: one rank of each host
// uses the network. On one host, this works with ranks that share processors, also for allgather, reduce_scatter and
// alltoall: fewest messages.
Schedule leaders_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule leaders_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule leaders_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule leaders_alltoall(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule leaders_barrier(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// tree.cpp: binomial tree. The broadcast's buffer is the output on every rank, including the root.
Schedule tree_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule tree_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule tree_reduce(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// tree_parts.cpp: a subtree's parts travel together.
Schedule tree_gather(const Call& call, const Topology& topology, int rank, std::size_t chunk);
Schedule tree_scatter(const Call& call, const Topology& topology, int rank, std::size_t chunk);

// dissemination.cpp: tokens to ranks 1, 2, 4, .. away; also for calls of zero elements, which still synchronise.
Schedule dissemination(const Call& call, const Topology& topology, int rank, std::size_t chunk);

}  // namespace anello::schedule
