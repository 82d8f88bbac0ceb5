#include "perf/collective.h"

#include "perf/failure.h"

#include <array>

namespace perf {
namespace {

struct Row {
  Collective collective;
  const char* name;
  const char* alias;
  bool reduces;
  bool has_root;
  bool out_of_place;
  bool in_place;
};

constexpr std::array kCollectives{
    Row{Collective::allreduce, "allreduce", "all_reduce", true, false, true, true},
    Row{Collective::broadcast, "broadcast", "bcast", false, true, false, true},
    Row{Collective::allgather, "allgather", "all_gather", false, false, true, true},
    Row{Collective::reduce_scatter, "reduce_scatter", "reduce_scatter_block", true, false, true, true},
    Row{Collective::barrier, "barrier", "barrier", false, false, true, false},
    Row{Collective::sendrecv, "sendrecv", "send_recv", false, false, true, false},
    Row{Collective::reduce, "reduce", "reduce", true, true, true, true},
    Row{Collective::gather, "gather", "gather", false, true, true, true},
    Row{Collective::scatter, "scatter", "scatter", false, true, true, true},
    Row{Collective::alltoall, "alltoall", "all_to_all", false, false, true, true},
    Row{Collective::scan, "scan", "scan", true, false, true, true},
};

const Row& row(Collective collective) { return kCollectives[static_cast<std::size_t>(collective)]; }

void send_and_receive(const Case& of, const void* send, void* receive, int rank, int ranks, anello_comm_t comm) {
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  std::array<anello_request_t, 2> requests{ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL};
  check(anello_irecv(receive, of.count, of.dtype, previous, 0, comm, &requests[0]), "anello_irecv", comm);
  const anello_result_t sent = anello_isend(send, of.count, of.dtype, next, 0, comm, &requests[1]);
  const anello_result_t waited = anello_wait_all(requests.size(), requests.data(), nullptr);
  check(sent, "anello_isend", comm);
  check(waited, "anello_wait_all", comm);
}

// A vector has a part of count elements for each rank.
bool has_parts(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reduce_scatter ||
         collective == Collective::gather || collective == Collective::scatter || collective == Collective::alltoall;
}

}  // namespace

const char* name(Collective collective) { return row(collective).name; }
bool reduces(Collective collective) { return row(collective).reduces; }
bool has_root(Collective collective) { return row(collective).has_root; }
bool has_out_of_place(Collective collective) { return row(collective).out_of_place; }
bool has_in_place(Collective collective) { return row(collective).in_place; }

std::optional<Collective> collective_named(const std::string& word) {
  for (const Row& candidate : kCollectives) {
    if (word == candidate.name || word == candidate.alias) return candidate.collective;
  }
  return std::nullopt;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Row& candidate : kCollectives) names.emplace_back(candidate.name);
  return names;
}

Case sized(Case of, std::size_t bytes, int ranks) {
  const std::size_t element = anello_dtype_size(of.dtype);
  const std::size_t shares = static_cast<std::size_t>(has_parts(of.collective) ? ranks : 1);
  of.count = of.collective == Collective::barrier ? 0 : bytes / (element * shares);
  of.bytes = of.count * shares * element;
  return of;
}

std::size_t send_count(const Case& of, int ranks) {
  const bool of_all = of.collective == Collective::reduce_scatter || of.collective == Collective::scatter ||
                      of.collective == Collective::alltoall;
  return of_all ? of.count * static_cast<std::size_t>(ranks) : of.count;
}

std::size_t receive_count(const Case& of, int ranks) {
  const bool of_all = of.collective == Collective::allgather || of.collective == Collective::gather ||
                      of.collective == Collective::alltoall;
  return of_all ? of.count * static_cast<std::size_t>(ranks) : of.count;
}

double bus_factor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::allreduce: return 2 * (n - 1) / n;
    case Collective::allgather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall: return (n - 1) / n;
    case Collective::reduce:
    case Collective::scan:
    case Collective::broadcast:
    case Collective::barrier:
    case Collective::sendrecv: return 1;
  }
  return 1;
}

void run(const Case& of, bool in_place, const void* send, void* receive, int rank, int ranks, anello_comm_t comm) {
  const void* input = in_place ? ANELLO_IN_PLACE : send;
  switch (of.collective) {
    case Collective::allreduce:
      return check(anello_allreduce(input, receive, of.count, of.dtype, of.op, comm), "anello_allreduce", comm);
    case Collective::broadcast:
      return check(anello_broadcast(receive, of.count, of.dtype, of.root, comm), "anello_broadcast", comm);
    case Collective::allgather:
      return check(anello_allgather(input, receive, of.count, of.dtype, comm), "anello_allgather", comm);
    case Collective::reduce_scatter:
      return check(anello_reduce_scatter_block(input, receive, of.count, of.dtype, of.op, comm),
                   "anello_reduce_scatter_block", comm);
    case Collective::reduce: {
      // Only the root is in place: the others' input lies in the same buffer.
      const void* const from = in_place && rank != of.root ? receive : input;
      return check(anello_reduce(from, receive, of.count, of.dtype, of.op, of.root, comm), "anello_reduce", comm);
    }
    case Collective::gather: {
      const void* const from = in_place && rank == of.root ? ANELLO_IN_PLACE : send;
      return check(anello_gather(from, receive, of.count, of.dtype, of.root, comm), "anello_gather", comm);
    }
    case Collective::scatter: {
      void* const into = in_place && rank == of.root ? const_cast<void*>(ANELLO_IN_PLACE) : receive;
      return check(anello_scatter(send, into, of.count, of.dtype, of.root, comm), "anello_scatter", comm);
    }
    case Collective::alltoall:
      return check(anello_alltoall(input, receive, of.count, of.dtype, comm), "anello_alltoall", comm);
    case Collective::scan:
      return check(anello_scan(input, receive, of.count, of.dtype, of.op, comm), "anello_scan", comm);
    case Collective::barrier: return check(anello_barrier(comm), "anello_barrier", comm);
    case Collective::sendrecv: return send_and_receive(of, send, receive, rank, ranks, comm);
  }
}

}  // namespace perf
