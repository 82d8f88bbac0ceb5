#include "schedule/well_formed.h"

#include "base/text.h"
#include "schedule/print.h"

namespace anello::schedule {
namespace {

class Inspection {
 public:
  Inspection(const Calls& calls, const std::vector<Schedule>& schedules) : calls_(calls), schedules_(schedules) {}

  std::string run() {
    for (const Schedule& each : schedules_)
      if (each.peers_inputs != schedules_[0].peers_inputs || each.peers_outputs != schedules_[0].peers_outputs)
        return "ranks disagree on which of their buffers are touched";
    for (const Schedule& each : schedules_)
      if (each.staging != schedules_[0].staging || each.staging_comes_back != schedules_[0].staging_comes_back)
        return "ranks disagree on how much of their staging is used, or whether it comes back";
    for (int r = 0; r < calls_.size(); ++r) {
      for (std::uint32_t s = 0; s < schedule(r).steps.size(); ++s)
        if (const std::string what = problem(r, schedule(r).steps[s]); !what.empty())
          return text("rank ", r, ", step ", s, " (", describe(schedule(r).steps[s]), ") ", what);
      for (const Lane& lane : schedule(r).lanes)
        if (const std::string what = problem(r, lane); !what.empty()) return what;
    }
    return "";
  }

 private:
  const Schedule& schedule(int rank) const { return schedules_[static_cast<std::size_t>(rank)]; }

  std::size_t elements(int rank, Buffer buffer) const {
    if (buffer == Buffer::scratch) return schedule(rank).scratch;
    if (buffer == Buffer::accumulator) return schedule(rank).accumulator;
    if (buffer == Buffer::staging) return schedule(rank).staging;
    return extent(buffer, calls_.of(rank), calls_.size(), rank);
  }

  std::string problem(int rank, const Step& step) const {
    if (step.kind == Kind::barrier) return "";
    for (const Slice* slice : {&step.into, &step.from})
      if (const std::string what = problem(rank, step, *slice); !what.empty()) return what;
    if (has_into(step.kind) && step.into.buffer == Buffer::input && step.into.count > 0) return "writes the input";
    if (step.kind == Kind::send && step.from.buffer == Buffer::accumulator) return "sends an accumulator";
    if (step.kind == Kind::reduce_ranks && step.from.owner != kEach) return "is not of all ranks' slices";
    for (int i = 0; step.kind == Kind::reduce_staged && i < operands_of(step, calls_.size()); ++i)
      if (const int r = operand_of(step, i); r != rank && step.staged + step.into.count > schedule(r).staging)
        return "goes past the end of a peer's staging";
    if (const std::string what = problem(rank, step, twin_of(step)); !what.empty()) return what;
    if (step.kind == Kind::exchange && step.from.count != input_count(calls_.shared(), calls_.size(), rank))
      return "posts another count than the call's";
    return "";
  }
  std::string problem(int rank, const Step& step, const Slice& slice) const {
    if (slice.owner != kOwn && slice.buffer == Buffer::staging) {
      if (slice.owner < 0 || slice.owner >= calls_.size()) return "names a rank that is not there";
      const bool shows = step.kind == Kind::reduce_staged && slice == twin_of(step);
      if (!shows && step.kind != Kind::copy) return "cannot touch peers' staging";
    } else if (slice.owner != kOwn) {
      const bool each = slice.owner == kEach && &slice == &step.from;
      if (slice.owner < kEach || slice.owner >= calls_.size()) return "names a rank that is not there";
      if (slice.buffer != Buffer::input && slice.buffer != Buffer::output) return "touches a peer's private buffer";
      if (step.kind != Kind::reduce_ranks && (step.kind != Kind::copy || each)) return "cannot touch peers' buffers";
      const bool said = slice.buffer == Buffer::input ? schedule(rank).peers_inputs : schedule(rank).peers_outputs;
      if (!said) return "touches a peer's buffer of a kind that its algorithm does not name";
      if (calls_.shared().reach < (&slice == &step.into ? Reach::store : Reach::read)) return "is out of reach";
    }
    std::string what;
    calls_.for_each_owner(rank, slice, [&](int owner, const Slice& there) {
      if (there.offset + there.count > elements(owner, there.buffer)) what = "goes past the end of its buffer";
    });
    return what;
  }

  // The k-th send matches the k-th receive: both must exist and have the same size.
  std::string problem(int r, const Lane& mine) const {
    if (mine.peer < 0 || mine.peer >= calls_.size() || mine.peer == r)
      return text("rank ", r, " has a lane to ", mine.peer);
    const Schedule& other = schedule(mine.peer);
    const std::size_t back = lane_to(other, r);
    const std::size_t expected = back == other.lanes.size() ? 0 : other.lanes[back].receives.size();
    if (back == other.lanes.size() || expected != mine.sends.size())
      return text("rank ", r, " sends ", mine.sends.size(), " messages to rank ", mine.peer, ", which expects ",
                  expected);
    for (std::size_t k = 0; k < expected; ++k) {
      const Step& send = schedule(r).steps[mine.sends[k]];
      const Step& receive = other.steps[other.lanes[back].receives[k]];
      if (send.peer != mine.peer || receive.peer != r) return "a step is in the wrong lane";
      if (send.from.count != receive.into.count)
        return text("rank ", r, "'s message ", k, " to rank ", mine.peer, " has ", send.from.count, " elements, but ",
                    receive.into.count, " are expected");
    }
    return "";
  }

  const Calls& calls_;
  const std::vector<Schedule>& schedules_;
};

}  // namespace

std::string why_malformed(const Calls& calls, const std::vector<Schedule>& schedules) {
  return Inspection(calls, schedules).run();
}

}  // namespace anello::schedule
