#include "schedule/expected.h"

#include "base/text.h"

namespace anello::schedule {
namespace {

// The rank whose part contains element i of the output; -1: none.
int sender_of(const Calls& calls, int rank, std::size_t i) {
  const Varying& parts = *calls.of(rank).varying;
  for (std::size_t p = 0; p < parts.receives.size(); ++p)
    if (i >= parts.receive_at[p] && i - parts.receive_at[p] < parts.receives[p]) return static_cast<int>(p);
  return -1;
}

class Results {
 public:
  Results(const Calls& calls, const Outputs& outputs, std::uint64_t& digest)
      : calls_(calls), outputs_(outputs), digest_(digest) {}

  std::string check() {
    for (int r = 0; r < calls_.size() && problem_.empty(); ++r) check_result(r);
    return problem_;
  }

 private:
  template <class... Parts>
  void wrong(const Parts&... parts) {
    if (problem_.empty()) problem_ = text(parts...);
  }
  // The elements between parts belong to the caller.
  void check_gap(int rank, std::size_t i, const Symbol& found) {
    const bool inside = input_in_output(calls_.of(rank), rank) && i >= input_offset(calls_.of(rank), rank) &&
                        i - input_offset(calls_.of(rank), rank) < input_count(calls_.of(rank), calls_.size(), rank);
    const bool same = inside ? found.hash == leaf(rank, i - input_offset(calls_.of(rank), rank)).hash : !found.written;
    if (!same) wrong("rank ", rank, "'s element ", i, " is in no part and was written");
  }

  void check_result(int rank) {
    for (std::size_t i = 0; i < result_count(calls_.of(rank), calls_.size(), rank); ++i) {
      const Symbol& result = outputs_(rank)[result_offset(calls_.of(rank), rank) + i];
      digest_ = mix(digest_ ^ result.hash);
      if (calls_.shared().varying != nullptr && sender_of(calls_, rank, i) < 0) {
        check_gap(rank, i, result);
        continue;
      }
      if (!result.written) return wrong("rank ", rank, "'s result ", i, " was never written");
      const Sources sources = sources_of(calls_, rank, i);
      if (reduces(calls_.shared().collective))
        check_reduced(rank, i, result, sources);
      else if (result.hash != leaf(sources.first, sources.element).hash)
        return wrong("rank ", rank, "'s element ", i, " is not rank ", sources.first, "'s ", sources.element);
    }
    if (calls_.of(rank).own_part) check_rest(rank);
    if (calls_.shared().collective == Collective::exscan && rank == 0)
      for (std::size_t i = 0; i < outputs_(0).size(); ++i)
        if (outputs_(0)[i].hash != leaf(0, i).hash) return wrong("rank 0's buffer was touched");
  }
  // The other parts of the input belong to the caller and must be unchanged.
  void check_rest(int rank) {
    const std::size_t begin = result_offset(calls_.of(rank), rank);
    const std::size_t end = begin + result_count(calls_.of(rank), calls_.size(), rank);
    for (std::size_t i = 0; i < outputs_(rank).size(); ++i)
      if ((i < begin || i >= end) && outputs_(rank)[i].hash != leaf(rank, i).hash)
        return wrong("rank ", rank, "'s input ", i, " is in no result and was written");
  }
  void check_reduced(int rank, std::size_t i, const Symbol& result, const Sources& sources) {
    if (calls_.shared().collective == Collective::allreduce && rank > 0) {  // rank 0's was checked
      if (result.hash != outputs_(0)[i].hash) wrong("rank ", rank, "'s result ", i, " has other bits than rank 0's");
      return;
    }
    std::uint64_t origins = 0;
    Symbol sum = leaf(sources.first, sources.element);
    for (int r = sources.first; r <= sources.last; ++r) {
      origins += fingerprint(r, sources.element);
      if (r > sources.first) sum = combine(sum, leaf(r, sources.element));
    }
    if (calls_.shared().finish) sum = finished(sum);
    if (result.inputs != static_cast<std::uint32_t>(sources.last - sources.first + 1) || result.origins != origins)
      return wrong("rank ", rank, "'s result ", i, " has not every rank's element in it once (", result.inputs,
                   " inputs)");
    if (result.finished != calls_.shared().finish)
      return wrong("rank ", rank, "'s result ", i, calls_.shared().finish ? " was not finished" : " was finished");
    if (calls_.shared().invariant && sum.hash != result.hash)
      return wrong("rank ", rank, "'s result ", i, " is not the reduction in rank order");
  }

  const Calls& calls_;
  const Outputs& outputs_;
  std::uint64_t& digest_;
  std::string problem_;
};

}  // namespace

Sources sources_of(const Calls& calls, int rank, std::size_t i) {
  const Call& call = calls.shared();
  const int size = calls.size();
  const auto own_part = static_cast<std::size_t>(rank) * call.count;
  const auto sender = call.count > 0 ? static_cast<int>(i / call.count) : 0;
  switch (call.collective) {
    case Collective::broadcast: return {call.root, call.root, i};
    case Collective::scatter: return {call.root, call.root, own_part + i};
    case Collective::allgather:
    case Collective::gather: return {sender, sender, i % call.count};
    case Collective::alltoall: return {sender, sender, own_part + i % call.count};
    case Collective::reduce_scatter: return {0, size - 1, own_part + i};
    case Collective::scan: return {0, rank, i};
    case Collective::exscan: return {0, rank - 1, i};
    case Collective::allgatherv:
    case Collective::gatherv:
    case Collective::scatterv:
    case Collective::alltoallv: {
      const int from = sender_of(calls, rank, i);
      const std::size_t in_part = i - calls.of(rank).varying->receive_at[static_cast<std::size_t>(from)];
      return {from, from, calls.of(from).varying->send_at[static_cast<std::size_t>(rank)] + in_part};
    }
    case Collective::reduce_scatterv:
      return {0, size - 1, calls.of(rank).varying->send_at[static_cast<std::size_t>(rank)] + i};
    case Collective::allreduce:
    case Collective::reduce:
    case Collective::barrier: break;
  }
  return {0, size - 1, i};
}

std::string why_wrong(const Calls& calls, const Outputs& outputs, std::uint64_t& digest) {
  return Results(calls, outputs, digest).check();
}

}  // namespace anello::schedule
