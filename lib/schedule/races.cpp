#include "schedule/races.h"

#include "base/text.h"
#include "schedule/print.h"

#include <algorithm>

namespace anello::schedule {
namespace {

// The barriers of its rank between which a step runs, counted from 1.
struct Between {
  std::size_t after = 0;          // 0: the entry, which is like a barrier
  std::size_t before = SIZE_MAX;  // no barrier follows: the rank's peers may have left
};

struct Access {
  int rank;
  std::uint32_t step;
  Slice slice;
  bool writes;
  Between when;
};

class Races {
 public:
  Races(const Calls& calls, const std::vector<Schedule>& schedules) : calls_(calls), schedules_(schedules) {}

  std::string find() {
    for (int r = 0; r < calls_.size(); ++r) {
      between_.push_back(barriers_around(r));
      if (barriers_.back() != barriers_.front())
        return text("rank ", r, " has ", barriers_.back(), " barriers, but rank 0 ", barriers_.front());
      if (!problem_.empty()) return problem_;
    }
    if (!any_touches_peers()) return "";
    collect();
    for (int owner = 0; owner < calls_.size(); ++owner)
      for (const Access& access : at(owner)) {
        if (access.rank != owner) check(owner, access);
        if (!problem_.empty()) return problem_;
      }
    return "";
  }

 private:
  const Schedule& schedule(int rank) const { return schedules_[static_cast<std::size_t>(rank)]; }
  std::vector<Access>& at(int owner) { return accesses_[static_cast<std::size_t>(owner)]; }

  bool any_touches_peers() const {
    return std::any_of(schedules_.begin(), schedules_.end(), [](const Schedule& each) {
      return std::any_of(each.steps.begin(), each.steps.end(), touches_peers);
    });
  }

  // Edges lead from earlier to later steps.
  std::vector<Between> barriers_around(int rank) {
    const Schedule& own = schedule(rank);
    std::vector<Between> result(own.steps.size());
    std::vector<std::size_t> number(own.steps.size(), 0);  // of the barriers
    std::size_t barriers = 0;
    for (std::uint32_t s = 0; s < own.steps.size(); ++s) {
      if (own.steps[s].kind == Kind::barrier) {
        if (result[s].after != barriers)
          problem_ = text(where(rank, s), " may change places with the barrier before it");
        number[s] = ++barriers;
      }
      const std::size_t after = std::max(result[s].after, number[s]);
      for (std::uint32_t f = own.follower_begin[s]; f < own.follower_begin[s + 1]; ++f)
        result[own.followers[f]].after = std::max(result[own.followers[f]].after, after);
    }
    for (std::size_t s = own.steps.size(); s-- > 0;)
      for (std::uint32_t f = own.follower_begin[s]; f < own.follower_begin[s + 1]; ++f) {
        const std::uint32_t follower = own.followers[f];
        const std::size_t before = number[follower] > 0 ? number[follower] : result[follower].before;
        result[s].before = std::min(result[s].before, before);
      }
    barriers_.push_back(barriers);
    return result;
  }

  void collect() {
    accesses_.resize(schedules_.size());
    for (int r = 0; r < calls_.size(); ++r)
      for (std::uint32_t s = 0; s < schedule(r).steps.size(); ++s) {
        const Step& step = schedule(r).steps[s];
        if (has_from(step.kind)) add(r, s, step.from, false);
        for (int i = 0; step.kind == Kind::reduce_staged && i < operands_of(step, calls_.size()); ++i)
          if (const int peer = operand_of(step, i); peer != r)
            add(r, s, {Buffer::staging, step.staged, step.into.count, peer}, false);
        if (has_into(step.kind)) add(r, s, step.into, true);
        add(r, s, twin_of(step), true);
      }
  }
  void add(int rank, std::uint32_t step, const Slice& slice, bool writes) {
    if (slice.count == 0 || slice.buffer == Buffer::scratch || slice.buffer == Buffer::accumulator) return;
    calls_.for_each_owner(rank, slice, [&](int owner, const Slice& there) {
      at(owner).push_back({rank, step, there, writes, between_[static_cast<std::size_t>(rank)][step]});
    });
  }

  void check(int owner, const Access& access) {
    // An owner cannot take back staging that rotates. If it comes back, its owner's next call stores there at once.
    const bool stays = access.slice.buffer == Buffer::staging && !schedule(owner).staging_comes_back;
    if (access.when.before == SIZE_MAX && !stays)
      problem_ = text(where(access.rank, access.step), " touches a buffer that rank ", owner,
                      " may have taken back: no barrier follows");
    for (const Access& other : at(owner)) {
      const bool overlap = other.slice.buffer == access.slice.buffer &&
                           other.slice.offset < access.slice.offset + access.slice.count &&
                           access.slice.offset < other.slice.offset + other.slice.count;
      const bool apart = access.when.before <= other.when.after || other.when.before <= access.when.after;
      if (other.rank == access.rank || !(other.writes || access.writes) || !overlap || apart) continue;
      problem_ = text(where(access.rank, access.step), " and ", where(other.rank, other.step), " both touch rank ",
                      owner, "'s ", describe(other.slice), ": no barrier keeps them apart");
    }
  }

  std::string where(int rank, std::uint32_t step) const {
    return text("rank ", rank, ", step ", step, " (", describe(schedule(rank).steps[step]), ")");
  }

  const Calls& calls_;
  const std::vector<Schedule>& schedules_;
  std::vector<std::vector<Between>> between_;  // by rank and step
  std::vector<std::size_t> barriers_;          // by rank: the number
  std::vector<std::vector<Access>> accesses_;  // by the buffer's owner
  std::string problem_;
};

}  // namespace

std::string find_race(const Calls& calls, const std::vector<Schedule>& schedules) {
  return Races(calls, schedules).find();
}

}  // namespace anello::schedule
