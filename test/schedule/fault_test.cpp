// The simulator's own test: schedules with one seeded fault, all of them over small cases. Each must be found, or else
// the simulator could not be trusted where it finds nothing.
#include "schedule/catalog.h"
#include "schedule/print.h"
#include "schedule/simulate.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace anello::schedule;

namespace {

struct Case {
  const Algorithm* algorithm;
  Call call;
  Topology topology;
  std::vector<Schedule> schedules;
  std::uint64_t digest;  // of the right results
};

std::vector<Case> small_cases(int fewest, int most = is_long() ? 5 : 4) {
  std::vector<Case> cases;
  for (const Algorithm& algorithm : catalog())
    for (int size = fewest; size <= most; ++size)
      for (Call call : calls(algorithm.collective, size)) {
        // What needs hosts is not for ranks that all meet.
        const Topology topology =
            fits_within_reach(algorithm, call, meeting(size)) ? meeting(size) : round_robin(size, 2);
        const auto ranks = static_cast<std::size_t>(size);
        if (call.count > ranks + 1 || call.count == 1 || !fits_within_reach(algorithm, call, topology)) continue;
        const std::vector<Schedule> schedules = make_all(algorithm, call, topology, 1);
        const Outcome outcome = simulate(call, topology, schedules);
        REQUIRE(outcome.problem == "");
        cases.push_back({&algorithm, call, topology, schedules, outcome.digest});
      }
  return cases;
}

bool carries_data(const Case& c) { return c.call.collective != Collective::barrier && c.call.count > 0; }

bool found(const Case& c, const std::vector<Schedule>& faulty, Interleaving interleaving = {}) {
  // Other bits than the right schedules': a result that every rank has alike, but that depends on who came first.
  const Outcome outcome = simulate(c.call, c.topology, faulty, interleaving);
  return !outcome.problem.empty() || outcome.digest != c.digest;
}

void drop(Schedule& schedule, std::uint32_t earlier, std::uint32_t later) {
  const auto begin = schedule.followers.begin() + schedule.follower_begin[earlier];
  const auto end = schedule.followers.begin() + schedule.follower_begin[earlier + 1];
  schedule.followers.erase(std::find(begin, end, later));
  for (std::size_t s = earlier + 1; s < schedule.follower_begin.size(); ++s) --schedule.follower_begin[s];
  --schedule.waits[later];
}

// Happens-before over all ranks: dependencies, the order within each lane, a message before its receive, and what leads
// to a barrier before what waits for it on any rank. With every message buffered this is all that orders the execution,
// so a step can come before another exactly if that other does not reach it here.
class HappensBefore {
 public:
  explicit HappensBefore(const std::vector<Schedule>& schedules) {
    for (const Schedule& schedule : schedules) {
      first_.push_back(next_.size());
      next_.resize(next_.size() + schedule.steps.size());
    }
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      const Schedule& own = schedules[r];
      for (std::uint32_t s = 0; s < own.steps.size(); ++s)
        for (std::uint32_t f = own.follower_begin[s]; f < own.follower_begin[s + 1]; ++f)
          add(r, s, r, own.followers[f]);
      for (const Lane& lane : own.lanes) {
        for (std::size_t k = 1; k < lane.sends.size(); ++k) add(r, lane.sends[k - 1], r, lane.sends[k]);
        for (std::size_t k = 1; k < lane.receives.size(); ++k) add(r, lane.receives[k - 1], r, lane.receives[k]);
        const auto peer = static_cast<std::size_t>(lane.peer);
        for (const Lane& back : schedules[peer].lanes)
          if (back.peer == static_cast<int>(r))
            for (std::size_t k = 0; k < lane.sends.size(); ++k) add(r, lane.sends[k], peer, back.receives[k]);
      }
      for (std::size_t q = 0; q < schedules.size(); ++q) meet(r, own, q, schedules[q]);
    }
  }
  bool reaches(std::size_t rank, std::uint32_t from, std::uint32_t to) const {
    return after({first_[rank] + from})[first_[rank] + to];
  }
  // Whether something that `from` does comes before something that `to` does, so that `to` knows of it at the end.
  bool informs(std::size_t from, std::size_t to) const {
    std::vector<std::size_t> begin;
    for (std::size_t s = first_[from]; s < end_of(from); ++s) begin.push_back(s);
    const std::vector<bool> seen = after(begin);
    return std::find(seen.begin() + static_cast<std::ptrdiff_t>(first_[to]),
                     seen.begin() + static_cast<std::ptrdiff_t>(end_of(to)),
                     true) != seen.begin() + static_cast<std::ptrdiff_t>(end_of(to));
  }

 private:
  void meet(std::size_t r, const Schedule& own, std::size_t q, const Schedule& other) {
    const std::vector<std::uint32_t> mine = meets(own);
    const std::vector<std::uint32_t> theirs = meets(other);
    for (std::size_t k = 0; k < mine.size(); ++k)
      for (std::uint32_t f = other.follower_begin[theirs[k]]; f < other.follower_begin[theirs[k] + 1]; ++f)
        add(r, mine[k], q, other.followers[f]);
  }
  static std::vector<std::uint32_t> meets(const Schedule& schedule) {
    std::vector<std::uint32_t> result;
    for (std::uint32_t s = 0; s < schedule.steps.size(); ++s)
      if (schedule.steps[s].kind == Kind::barrier) result.push_back(s);
    return result;
  }
  std::size_t end_of(std::size_t rank) const { return rank + 1 < first_.size() ? first_[rank + 1] : next_.size(); }
  std::vector<bool> after(std::vector<std::size_t> open) const {
    std::vector<bool> seen(next_.size());
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      open.insert(open.end(), next_[at].begin(), next_[at].end());
    }
    return seen;
  }
  void add(std::size_t rank, std::uint32_t step, std::size_t later_rank, std::uint32_t later) {
    next_[first_[rank] + step].push_back(first_[later_rank] + later);
  }
  std::vector<std::size_t> first_;
  std::vector<std::vector<std::size_t>> next_;
};

}  // namespace

// Whether the schedules need it: for data, that the two steps can change places; for tokens, where several ways may
// lead from one rank to another, that some rank could now leave before another has come.
bool harms(const Case& c, const std::vector<Schedule>& faulty, std::size_t rank, std::uint32_t earlier,
           std::uint32_t later) {
  const HappensBefore order(faulty);
  if (carries_data(c)) return !order.reaches(rank, earlier, later);
  for (std::size_t to = 0; to < faulty.size(); ++to)
    for (std::size_t from = 0; from < faulty.size(); ++from) {
      const bool must = c.call.collective != Collective::broadcast || static_cast<int>(from) == c.call.root;
      if (must && from != to && !order.informs(from, to)) return true;
    }
  return false;
}

// A barrier holds all that comes before and behind it, also what touches this rank's buffers alone and need not wait.
bool own_work_at_a_barrier(const Step& earlier, const Step& later) {
  if (earlier.kind == Kind::barrier && later.kind == Kind::barrier) return false;
  // What is loaded from staging may be loaded until its place is stored into anew, which need not be behind the next
  // barrier.
  const bool loads_staging = earlier.from.buffer == Buffer::staging || earlier.kind == Kind::reduce_staged;
  if (later.kind == Kind::barrier && loads_staging) return true;
  return (earlier.kind == Kind::barrier && !touches_peers(later)) ||
         (later.kind == Kind::barrier && !touches_peers(earlier));
}

TEST_CASE("a dropped dependency is found exactly where nothing else implies it") {
  std::size_t needed = 0;
  std::size_t implied = 0;
  for (const Case& c : small_cases(2))
    for (std::size_t r = 0; r < c.schedules.size(); ++r)
      for (std::uint32_t s = 0; s < c.schedules[r].steps.size(); ++s)
        for (std::uint32_t f = c.schedules[r].follower_begin[s]; f < c.schedules[r].follower_begin[s + 1]; ++f) {
          const std::uint32_t later = c.schedules[r].followers[f];
          if (own_work_at_a_barrier(c.schedules[r].steps[s], c.schedules[r].steps[later])) continue;
          std::vector<Schedule> faulty = c.schedules;
          drop(faulty[r], s, later);
          const bool harmful = harms(c, faulty, r, s, later);
          ++(harmful ? needed : implied);
          INFO(c.algorithm->name << " " << describe(c.call) << ", " << c.schedules.size() << " ranks, rank " << r
                                 << ": " << s << " " << describe(c.schedules[r].steps[s]) << " before " << later << " "
                                 << describe(c.schedules[r].steps[later]));
          // The step that is no longer waited for is held back until nothing else can happen.
          REQUIRE(found(c, faulty, {1, 256, static_cast<int>(r), s}) == harmful);
        }
  CHECK(needed > 1000);
  CHECK(implied > 100);
}

TEST_CASE("a shifted slice is found") {
  std::size_t seeded = 0;
  for (const Case& c : small_cases(2)) {
    if (!carries_data(c)) continue;  // nobody looks at tokens: their slices only carry the order
    for (std::size_t r = 0; r < c.schedules.size(); ++r)
      for (std::size_t s = 0; s < c.schedules[r].steps.size(); ++s)
        for (const bool into : {true, false})
          for (const int by : {1, -1}) {
            std::vector<Schedule> faulty = c.schedules;
            Step& step = faulty[r].steps[s];
            if (step.kind == Kind::send && into) continue;
            if (step.kind == Kind::recv && !into) continue;
            Slice& slice = into ? step.into : step.from;
            if (slice.count == 0 || (by < 0 && slice.offset == 0)) continue;
            slice.offset = by > 0 ? slice.offset + 1 : slice.offset - 1;
            ++seeded;
            INFO(c.algorithm->name << " " << describe(c.call) << ", rank " << r << ", step " << s << " became "
                                   << describe(step));
            REQUIRE(found(c, faulty));
          }
  }
  CHECK(seeded > 5000);
}

TEST_CASE("a wrong peer is found") {
  std::size_t seeded = 0;
  for (const Case& c : small_cases(3))
    for (std::size_t r = 0; r < c.schedules.size(); ++r)
      for (std::uint32_t s = 0; s < c.schedules[r].steps.size(); ++s) {
        const Step& right = c.schedules[r].steps[s];
        if (right.peer < 0) continue;
        for (int peer = 0; peer < c.topology.size; ++peer) {
          if (peer == right.peer || peer == static_cast<int>(r)) continue;
          std::vector<Schedule> faulty = c.schedules;
          faulty[r].steps[s].peer = peer;
          // As the builder would have it: the step moves to the other lane, where it keeps program order.
          std::vector<Lane>& lanes = faulty[r].lanes;
          auto at = std::lower_bound(lanes.begin(), lanes.end(), peer, [](const Lane& l, int p) { return l.peer < p; });
          if (at == lanes.end() || at->peer != peer) at = lanes.insert(at, Lane{peer, {}, {}});
          const bool sends = right.kind == Kind::send;
          auto& gains = sends ? at->sends : at->receives;
          gains.insert(std::lower_bound(gains.begin(), gains.end(), s), s);
          for (Lane& lane : lanes)
            if (lane.peer == right.peer) std::erase(sends ? lane.sends : lane.receives, s);
          ++seeded;
          INFO(c.algorithm->name << " " << describe(c.call) << ", rank " << r << ", step " << s);
          REQUIRE(found(c, faulty));
        }
      }
  CHECK(seeded > 1000);
}

// What an allgather's rank sends of its own part is the same from its input and from among the results.
Slice as_result(const Case& c, std::size_t rank, Slice slice) {
  if (c.call.collective != Collective::allgather || slice.buffer != Buffer::input) return slice;
  return {Buffer::output, rank * c.call.count + slice.offset, slice.count};
}

TEST_CASE("two messages that change places with two other ranks' are found") {
  // A wrong peer leaves a lane one short, which is found by counting; here the counts stay right.
  std::size_t seeded = 0;
  for (const Case& c : small_cases(4, 5)) {
    if (!carries_data(c) || c.algorithm->name == "tree" || c.algorithm->name == "exchange") continue;
    for (std::size_t r = 0; r < c.schedules.size(); ++r) {
      const Schedule& own = c.schedules[r];
      for (std::size_t a = 0; a < own.lanes.size(); ++a)
        for (std::size_t b = a + 1; b < own.lanes.size(); ++b) {
          if (own.lanes[a].sends.empty() || own.lanes[b].sends.empty()) continue;
          const std::uint32_t first = own.lanes[a].sends.front();
          const std::uint32_t second = own.lanes[b].sends.front();
          if (as_result(c, r, own.steps[first].from) == as_result(c, r, own.steps[second].from))
            continue;  // the same message
          std::vector<Schedule> faulty = c.schedules;
          std::swap(faulty[r].lanes[a].sends.front(), faulty[r].lanes[b].sends.front());
          std::swap(faulty[r].steps[first].peer, faulty[r].steps[second].peer);
          ++seeded;
          INFO(c.algorithm->name << " " << describe(c.call) << ", rank " << r);
          REQUIRE(found(c, faulty));
        }
    }
  }
  CHECK(seeded > 100);
}

TEST_CASE("a recv in place of a recv_reduce is found, and the other way round") {
  std::size_t seeded = 0;
  for (const Case& c : small_cases(2)) {
    if (!carries_data(c)) continue;
    for (std::size_t r = 0; r < c.schedules.size(); ++r)
      for (std::size_t s = 0; s < c.schedules[r].steps.size(); ++s) {
        std::vector<Schedule> faulty = c.schedules;
        Step& step = faulty[r].steps[s];
        if (step.kind == Kind::recv_reduce) {
          step.kind = Kind::recv;
        } else if (step.kind == Kind::recv) {
          step.kind = Kind::recv_reduce;
          step.from = step.into;
        } else {
          continue;
        }
        ++seeded;
        INFO(c.algorithm->name << " " << describe(c.call) << ", rank " << r << ", step " << s << " became "
                               << describe(step));
        REQUIRE(found(c, faulty));
      }
  }
  CHECK(seeded > 1000);
}

TEST_CASE("operands in the wrong order are found") {
  std::size_t seeded = 0;
  for (const Case& c : small_cases(2)) {
    if (!carries_data(c)) continue;
    for (std::size_t r = 0; r < c.schedules.size(); ++r)
      for (std::size_t s = 0; s < c.schedules[r].steps.size(); ++s) {
        std::vector<Schedule> faulty = c.schedules;
        Step& step = faulty[r].steps[s];
        if (step.kind != Kind::recv_reduce && step.kind != Kind::reduce) continue;
        step.reversed = !step.reversed;
        ++seeded;
        INFO(c.algorithm->name << " " << describe(c.call) << ", rank " << r << ", step " << s);
        REQUIRE(found(c, faulty));
      }
  }
  CHECK(seeded > 500);
}

TEST_CASE("a missing finish, and one too many, are found") {
  std::size_t seeded = 0;
  for (const Case& c : small_cases(1, 4)) {
    if (!c.call.finish || !carries_data(c)) continue;
    for (std::size_t r = 0; r < c.schedules.size(); ++r)
      for (std::size_t s = 0; s < c.schedules[r].steps.size(); ++s) {
        if (c.schedules[r].steps[s].kind != Kind::finish) continue;
        std::vector<Schedule> faulty = c.schedules;
        faulty[r].steps[s].kind = Kind::copy;
        ++seeded;
        REQUIRE(found(c, faulty));
      }
  }
  CHECK(seeded > 100);
}

TEST_CASE("sends that wait for each other around the ring are a deadlock") {
  // Everybody overwrites what it sends: fine while messages are buffered, stuck where they are not.
  const Call call = a_call(Collective::broadcast, 1);
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) {
    Schedule schedule;
    const Slice token{Buffer::scratch, 0, 1};
    schedule.steps = {{Kind::send, false, (rank + 1) % 3, {}, token}, {Kind::recv, false, (rank + 2) % 3, token, {}}};
    schedule.waits = {0, 1};
    schedule.followers = {1};
    schedule.follower_begin = {0, 1, 1};
    schedule.lanes = {{(rank + 1) % 3, {0}, {}}, {(rank + 2) % 3, {}, {1}}};
    std::sort(schedule.lanes.begin(), schedule.lanes.end(),
              [](const Lane& a, const Lane& b) { return a.peer < b.peer; });
    schedule.scratch = 1;
    schedules.push_back(schedule);
  }
  Call barrier = call;
  barrier.collective = Collective::barrier;
  barrier.count = 0;
  CHECK(simulate(barrier, meeting(3), schedules, {1, 256, -1, 0}).problem.find("deadlock") == std::string::npos);
  CHECK(simulate(barrier, meeting(3), schedules, {1, 0, -1, 0}).problem.find("deadlock") != std::string::npos);
}
