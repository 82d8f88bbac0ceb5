#include "schedule/shape.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace anello::schedule {
namespace {

// One past the last element of the parts.
std::size_t end_of(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& at) {
  std::size_t end = 0;
  for (std::size_t p = 0; p < counts.size(); ++p)
    if (counts[p] > 0) end = std::max(end, at[p] + counts[p]);
  return end;
}

}  // namespace

bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce || collective == Collective::reduce_scatterv || is_prefix(collective);
}

bool is_prefix(Collective collective) { return collective == Collective::scan || collective == Collective::exscan; }

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::gather ||
         collective == Collective::scatter || collective == Collective::gatherv || collective == Collective::scatterv;
}

bool is_varying(Collective collective) {
  return collective == Collective::allgatherv || collective == Collective::reduce_scatterv ||
         is_between_pairs(collective);
}

bool is_between_pairs(Collective collective) {
  return collective == Collective::gatherv || collective == Collective::scatterv || collective == Collective::alltoallv;
}

bool has_parts(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reduce_scatter ||
         collective == Collective::gather || collective == Collective::scatter || collective == Collective::alltoall;
}

std::shared_ptr<const Varying> measured(Varying parts) {
  parts.input_end = end_of(parts.sends, parts.send_at);
  parts.output_end = end_of(parts.receives, parts.receive_at);
  return std::make_shared<const Varying>(std::move(parts));
}

std::size_t input_count(const Call& call, int size, int rank) {
  const std::size_t all = call.count * static_cast<std::size_t>(size);
  if (call.varying != nullptr) return call.varying->input_end;
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
    default: break;
  }
  return 0;
}

std::size_t largest_input(const Call& call, int size) {
  return is_varying(call.collective) ? call.count : input_count(call, size, call.root);
}

std::size_t result_count(const Call& call, int size, int rank) {
  const std::size_t all = call.count * static_cast<std::size_t>(size);
  if (call.varying != nullptr) return call.varying->output_end;
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
    default: break;
  }
  return 0;
}

bool input_in_output(const Call& call, int rank) {
  switch (call.collective) {
    case Collective::broadcast: return true;
    case Collective::reduce:
    case Collective::gather:
    case Collective::gatherv: return call.in_place && rank == call.root;
    case Collective::scatter:
    case Collective::scatterv:
    case Collective::barrier: return false;
    default: return call.in_place;
  }
}

std::size_t input_offset(const Call& call, int rank) {
  if (call.collective == Collective::allgatherv || call.collective == Collective::gatherv)
    return call.varying->receive_at[static_cast<std::size_t>(rank)];
  const bool own_part = call.collective == Collective::allgather || call.collective == Collective::gather;
  return own_part ? static_cast<std::size_t>(rank) * call.count : 0;
}

std::size_t result_offset(const Call& call, int rank) {
  if (!call.own_part) return 0;
  const auto own = static_cast<std::size_t>(rank);
  return call.varying != nullptr ? call.varying->send_at[own] : own * call.count;
}

Slice resolve(Slice slice, const Call& call, int rank) {
  if (slice.buffer == Buffer::output) slice.offset += result_offset(call, rank);
  if (slice.buffer != Buffer::input || !input_in_output(call, rank)) return slice;
  slice.buffer = Buffer::output;
  slice.offset += input_offset(call, rank);
  return slice;
}

std::size_t extent(Buffer buffer, const Call& call, int size, int rank) {
  const bool inside = input_in_output(call, rank);
  const std::size_t given = input_count(call, size, rank);
  if (buffer == Buffer::input) return inside ? 0 : given;
  if (buffer != Buffer::output) return 0;
  const std::size_t result = result_count(call, size, rank);
  return inside ? std::max(result_offset(call, rank) + result, input_offset(call, rank) + given) : result;
}

}  // namespace anello::schedule
