#pragma once
// A schedule ready to run, with what the executor looks up per step laid out beside it. Shared, immutable.
#include "schedule/schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace anello::executor {

// How far a plan's steps reach into the buffers of other ranks, in elements.
struct PeerExtents {
  std::size_t of_each = 0;           // into every rank's
  std::vector<std::size_t> of_rank;  // into one rank's, where that is further; none beyond its end

  std::size_t at(std::size_t rank) const { return std::max(of_each, rank < of_rank.size() ? of_rank[rank] : 0); }
  void add(const schedule::Slice& slice);
};

struct Plan {
  schedule::Schedule schedule;
  std::vector<std::uint16_t> lane_of_step;  // index into schedule.lanes; kNoLane for steps without a peer
  // A single exchange step over the board and nothing else.
  bool is_exchange = false;
  // For peers' memory: how far its steps reach into ranks' inputs and outputs, and whether it has barriers on the
  // board.
  PeerExtents peer_inputs;
  PeerExtents peer_outputs;
  bool has_barrier = false;
  bool reads_peers = false;  // this rank reads peers' memory or stores to it

  static constexpr std::uint16_t kNoLane = 0xffff;
  static std::shared_ptr<const Plan> of(schedule::Schedule schedule);
};

// The plans of one call, by how far ranks reach into each other's buffers; plans that do not differ are shared. If only
// the first is set, no rank announces its buffers.
struct Plans {
  std::shared_ptr<const Plan> by_reach[schedule::kReaches];
  // If all ranks' buffers are on devices, by space; null: the call goes through the host.
  std::shared_ptr<const Plan> by_space[schedule::kSpaces];
  // Replaces a plan that needs staging memory, if there is none.
  std::shared_ptr<const Plan> unstaged;
  // Which buffers some of the plans access at peers: only these matter in an announcement.
  bool peers_inputs = false;
  bool peers_outputs = false;
  // Whether staging, an exchange or messages may replace a schedule over peers' memory, as no caller has asked for that
  // schedule.
  bool may_be_staged = false;
  // Neither a caller nor a measured table has asked for an algorithm over peers' memory.
  bool by_library = false;
  // Whether this rank reads others' memory if it can reach it.
  bool reads_peers = false;

  void add(schedule::Reach reach, std::shared_ptr<const Plan> plan) {
    peers_inputs = peers_inputs || plan->schedule.peers_inputs;
    peers_outputs = peers_outputs || plan->schedule.peers_outputs;
    reads_peers = reads_peers || (reach != schedule::Reach::none && plan->reads_peers);
    by_reach[std::size_t(reach)] = std::move(plan);
  }

  void add(schedule::Space space, std::shared_ptr<const Plan> plan) { by_space[std::size_t(space)] = std::move(plan); }

  const std::shared_ptr<const Plan>& at(schedule::Reach reach) const { return by_reach[std::size_t(reach)]; }
  const std::shared_ptr<const Plan>& at(schedule::Space space) const { return by_space[std::size_t(space)]; }
  bool has_device_plans() const {
    return at(schedule::Space::one_device) != nullptr || at(schedule::Space::devices) != nullptr;
  }
  bool announces() const { return at(schedule::Reach::store) != nullptr; }
  // Whether the read policy decides (memory/read_policy.h): a rule of the library lets ranks read data that they could
  // also stage.
  bool reads_by_policy() const {
    const auto& plain = at(schedule::Reach::none);
    return by_library && announces() && plain->schedule.staging > 0 && at(schedule::Reach::read) != plain;
  }
  // Whether one rank's buffers outside all regions rule out peers' memory, and the call is then an exchange. Such a
  // rank says so by publishing its payload at once; if all do, that was the exchange.
  bool may_exchange_at_once() const {
    const auto& plain = at(schedule::Reach::none);
    return plain->is_exchange && at(schedule::Reach::read) == plain;
  }
  // Likewise, but staged: such a rank stages its first round at once; if all do, that was the first barrier.
  bool may_stage_at_once() const {
    const auto& plain = at(schedule::Reach::none);
    return plain->schedule.staging > 0 && (reads_by_policy() || at(schedule::Reach::read) == plain);
  }
  // Likewise, but by messages: where one rank alone gives data, its word is enough, and it waits for no line.
  bool may_send_at_once() const {
    const auto& plain = at(schedule::Reach::none);
    return !plain->schedule.lanes.empty() && !plain->has_barrier && at(schedule::Reach::read) == plain;
  }
};

}  // namespace anello::executor
