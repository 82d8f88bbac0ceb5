// Schedules over staging memory if several ranks share a processor: their own reduction stays in the processor's
// caches, and only one vector of each processor goes to the others. If every rank reduced its block of all inputs, most
// vectors would cross processors.
#include "schedule/algorithms.h"
#include "schedule/builder.h"
#include "schedule/hosts.h"
#include "schedule/split.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace anello::schedule {
namespace {

using Ranks = std::shared_ptr<const std::vector<int>>;

// The layout of a rank's staging memory, in elements. It has places for a round's operand, which are used in turn. A
// leader has its ranks' sum in place of its own operand, and places for results. With two leaders, each stores its
// result over the other's sum, because its lines came from there; that place takes one round longer to be free. All of
// it is small and equal in every call, so it stays in the caches.
class Places {
 public:
  Places(const Call& call, const Topology& topology, int leaders, std::size_t chunk)
      : leaders_(leaders), line_(std::max<std::size_t>(64 / call.element_bytes, 1)) {
    const std::size_t elements = topology.staging_bytes / call.element_bytes;
    const std::size_t most = std::max<std::size_t>(elements / 4, 1);
    round_ = std::min({most, std::max<std::size_t>(chunk, 1), call.count});
    if (round_ > line_) round_ -= round_ % line_;
    result_ = block({0, round_}, 0).count;
  }
  bool comes_back() const { return leaders_ == 2; }
  std::size_t elements() const { return comes_back() ? 3 * round_ : 2 * (round_ + result_); }
  std::size_t round() const { return round_; }
  Part operand(std::size_t turn, Part whole) const { return {turn % 2 * round_, whole.count}; }
  Part sum(std::size_t turn, Part whole) const { return {turn % (comes_back() ? 3 : 2) * round_, whole.count}; }
  // The part of a sum that a leader reduces, and its result.
  Part sum(std::size_t turn, Part whole, int leader) const {
    const Part part = block(whole, leader);
    return {sum(turn, whole).offset + part.offset - whole.offset, part.count};
  }
  Part result(std::size_t turn, Part whole, int leader) const {
    if (comes_back()) return sum(turn, whole, leader);
    return {2 * round_ + turn % 2 * result_, block(whole, leader).count};
  }
  // The rank whose memory holds that result.
  int keeper(int leader) const { return comes_back() ? 1 - leader : leader; }
  // The part of a round that a leader reduces.
  Part block(Part whole, int leader) const {
    const Part part = aligned_block(whole.count, leaders_, line_, leader);
    return {whole.offset + part.offset, part.count};
  }

 private:
  const int leaders_;
  const std::size_t line_;
  std::size_t round_, result_;
};

// One rank's part. Each round has four stages, each followed by a barrier: the ranks' operands, their sum, the leader's
// block of all sums, and all blocks. Four rounds are in flight at a time, so there is only one barrier per round, and
// few hand-overs of a processor.
class Rounds {
 public:
  Rounds(const Call& call, const Topology& topology, int rank, std::size_t chunk)
      : call_(call),
        rank_(rank),
        groups_(*together(topology)),
        group_(groups_.of(rank)),
        locals_(std::make_shared<const std::vector<int>>(groups_.ranks(group_))),
        leaders_(leaders_of(groups_)),
        places_(call, topology, groups_.count(), chunk),
        steps_("staged_leaders", call, topology, rank) {
    steps_.stages(places_.elements(), true);
  }

  Schedule make() && {
    const std::size_t rounds = (call_.count + places_.round() - 1) / places_.round();
    constexpr std::size_t kStages = 4;
    for (std::size_t now = 0; now + 1 < rounds + kStages; ++now) {
      if (now < rounds) stage(now);
      if (now >= 1 && now - 1 < rounds) reduce_locals(now - 1);
      if (now >= 2 && now - 2 < rounds) fold_block(now - 2);
      if (now >= 3) take_results(now - 3);
      steps_.barrier();
    }
    return std::move(steps_).build();
  }

 private:
  static Ranks leaders_of(const Hosts& groups) {
    std::vector<int> leaders;
    for (int group = 0; group < groups.count(); ++group) leaders.push_back(groups.ranks(group)[0]);
    return std::make_shared<const std::vector<int>>(std::move(leaders));
  }
  bool leads() const { return rank_ == (*locals_)[0]; }
  Part whole(std::size_t turn) const {
    const std::size_t at = turn * places_.round();
    return {at, std::min(places_.round(), call_.count - at)};
  }

  void stage(std::size_t turn) {
    if (!leads()) steps_.copy(staging(places_.operand(turn, whole(turn))), input(whole(turn)));
  }
  void reduce_locals(std::size_t turn) {
    if (!leads()) return;
    const Slice sum = staging(places_.sum(turn, whole(turn)));
    if (locals_->size() == 1) return steps_.copy(sum, input(whole(turn)));
    steps_.reduce_staged_among(locals_, sum, input(whole(turn)), places_.operand(turn, whole(turn)).offset);
  }
  void fold_block(std::size_t turn) {
    if (!leads()) return;
    const Part block = places_.block(whole(turn), group_);
    const Part sum = places_.sum(turn, whole(turn), group_);
    const Slice result = result_of(turn, group_);
    steps_.reduce_staged_among(leaders_, output(block), staging(sum), sum.offset,
                               call_.finish ? kNotShown : result.offset, result.owner);
    if (!call_.finish) return;
    steps_.finish(output(block), output(block));
    steps_.copy(result, output(block));
  }
  // It begins with the own leader's block: otherwise all would load the same block at once.
  void take_results(std::size_t turn) {
    for (int d = 0; d < groups_.count(); ++d) {
      const int group = wrap(group_ + d, groups_.count());
      if (leader(group) != rank_) steps_.copy(output(places_.block(whole(turn), group)), result_of(turn, group));
    }
  }
  int leader(int group) const { return (*leaders_)[static_cast<std::size_t>(group)]; }
  Slice result_of(std::size_t turn, int group) const {
    const Part place = places_.result(turn, whole(turn), group);
    const int keeper = leader(places_.keeper(group));
    return keeper == rank_ ? staging(place) : staging_of(keeper, place);
  }

  const Call& call_;
  const int rank_;
  const Hosts groups_;
  const int group_;
  const Ranks locals_;   // the leader of this rank's processor
  const Ranks leaders_;  // by processor
  const Places places_;
  Builder steps_;
};

}  // namespace

Schedule staged_leaders_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  return Rounds(call, topology, rank, chunk).make();
}

}  // namespace anello::schedule
