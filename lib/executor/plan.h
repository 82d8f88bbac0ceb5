#pragma once
// A schedule ready to run: what the executor looks up per step is laid out beside it once. Shared, immutable.
#include "schedule/schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace anello::executor {

// How far the steps of a plan go into the buffers of other ranks, in elements.
struct PeerExtents {
  std::size_t of_each = 0;           // into every rank's
  std::vector<std::size_t> of_rank;  // into one rank's, where that is further; none behind its end

  std::size_t at(std::size_t rank) const { return std::max(of_each, rank < of_rank.size() ? of_rank[rank] : 0); }
  void add(const schedule::Slice& slice);
};

struct Plan {
  schedule::Schedule schedule;
  std::vector<std::uint16_t> lane_of_step;  // index into schedule.lanes; kNoLane for steps without a peer
  // A single exchange step over the board and nothing else.
  bool is_exchange = false;
  // Over peers' memory: where its steps are at in the inputs and outputs of ranks; and whether it has barriers on the
  // board.
  PeerExtents peer_inputs;
  PeerExtents peer_outputs;
  bool has_barrier = false;
  bool reads_peers = false;  // this rank does, or stores to them

  static constexpr std::uint16_t kNoLane = 0xffff;
  static std::shared_ptr<const Plan> of(schedule::Schedule schedule);
};

// Of one call: by what ranks turn out to reach of each other's buffers; the same one where that changes nothing. Where
// only the first is there, none announces any.
struct Plans {
  std::shared_ptr<const Plan> by_reach[schedule::kReaches];
  // In the place of one that needs staging memory, where that is not to be had.
  std::shared_ptr<const Plan> unstaged;
  // Which of ranks' buffers some of them goes to: the ones that matter of what is announced.
  bool peers_inputs = false;
  bool peers_outputs = false;
  // Whether staging, an exchange or messages may take the place of what goes over peers' memory: nobody has asked for
  // that.
  bool may_be_staged = false;
  // Nobody asked for an algorithm over peers' memory, and no measured table did.
  bool by_library = false;
  // Whether this rank reads others' memory where they reach it.
  bool reads_peers = false;

  void add(schedule::Reach reach, std::shared_ptr<const Plan> plan) {
    peers_inputs = peers_inputs || plan->schedule.peers_inputs;
    peers_outputs = peers_outputs || plan->schedule.peers_outputs;
    reads_peers = reads_peers || (reach != schedule::Reach::none && plan->reads_peers);
    by_reach[std::size_t(reach)] = std::move(plan);
  }

  const std::shared_ptr<const Plan>& at(schedule::Reach reach) const { return by_reach[std::size_t(reach)]; }
  bool announces() const { return at(schedule::Reach::store) != nullptr; }
  // Whether the read policy decides (memory/read_policy.h): a rule of the library's has ranks read what they could
  // stage as well.
  bool reads_by_policy() const {
    const auto& plain = at(schedule::Reach::none);
    return by_library && announces() && plain->schedule.staging > 0 && at(schedule::Reach::read) != plain;
  }
  // Whether all is lost for peers' memory where one rank's buffers are in no region, and the call is then an exchange:
  // such a rank says so by publishing its payload at once, and if all do that was the exchange.
  bool may_exchange_at_once() const {
    const auto& plain = at(schedule::Reach::none);
    return plain->is_exchange && at(schedule::Reach::read) == plain;
  }
  // The same where it is staged: such a rank stages its first round at once, and if all do that was the first barrier.
  bool may_stage_at_once() const {
    const auto& plain = at(schedule::Reach::none);
    return plain->schedule.staging > 0 && (reads_by_policy() || at(schedule::Reach::read) == plain);
  }
  // The same where it goes by messages: where one rank alone gives, its word is enough, and it waits for nobody's.
  bool may_send_at_once() const {
    const auto& plain = at(schedule::Reach::none);
    return !plain->schedule.lanes.empty() && !plain->has_barrier && at(schedule::Reach::read) == plain;
  }
};

}  // namespace anello::executor
