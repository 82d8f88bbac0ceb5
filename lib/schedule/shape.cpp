#include "schedule/shape.h"

#include <algorithm>

namespace anello::schedule {

bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce || is_prefix(collective);
}

bool is_prefix(Collective collective) { return collective == Collective::scan || collective == Collective::exscan; }

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::gather ||
         collective == Collective::scatter;
}

bool has_parts(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reduce_scatter ||
         collective == Collective::gather || collective == Collective::scatter || collective == Collective::alltoall;
}

std::size_t input_count(const Call& call, int size, int rank) {
  const std::size_t all = call.count * static_cast<std::size_t>(size);
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::allgather:
    case Collective::reduce:
    case Collective::gather:
    case Collective::scan:
    case Collective::exscan: return call.count;
    case Collective::reduce_scatter:
    case Collective::alltoall: return all;
    case Collective::broadcast: return rank == call.root ? call.count : 0;
    case Collective::scatter: return rank == call.root ? all : 0;
    case Collective::barrier: break;
  }
  return 0;
}

std::size_t largest_input(const Call& call, int size) { return input_count(call, size, call.root); }

std::size_t result_count(const Call& call, int size, int rank) {
  const std::size_t all = call.count * static_cast<std::size_t>(size);
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::reduce_scatter:
    case Collective::scan: return call.count;
    case Collective::allgather:
    case Collective::alltoall: return all;
    case Collective::reduce: return rank == call.root ? call.count : 0;
    case Collective::gather: return rank == call.root ? all : 0;
    case Collective::scatter: return rank == call.root && call.in_place ? 0 : call.count;
    case Collective::exscan: return rank > 0 ? call.count : 0;
    case Collective::barrier: break;
  }
  return 0;
}

bool input_in_output(const Call& call, int rank) {
  switch (call.collective) {
    case Collective::broadcast: return true;
    case Collective::reduce:
    case Collective::gather: return call.in_place && rank == call.root;
    case Collective::scatter:
    case Collective::barrier: return false;
    default: return call.in_place;
  }
}

std::size_t input_offset(const Call& call, int rank) {
  const bool own_part = call.collective == Collective::allgather || call.collective == Collective::gather;
  return own_part ? static_cast<std::size_t>(rank) * call.count : 0;
}

std::size_t extent(Buffer buffer, const Call& call, int size, int rank) {
  const bool inside = input_in_output(call, rank);
  const std::size_t given = input_count(call, size, rank);
  if (buffer == Buffer::input) return inside ? 0 : given;
  if (buffer != Buffer::output) return 0;
  const std::size_t result = result_count(call, size, rank);
  return inside ? std::max(result, given) : result;
}

}  // namespace anello::schedule
