#include "schedule/simulate.h"

#include "base/text.h"
#include "schedule/arithmetic.h"
#include "schedule/calls.h"
#include "schedule/expected.h"
#include "schedule/knowledge.h"
#include "schedule/print.h"
#include "schedule/races.h"
#include "schedule/symbol.h"
#include "schedule/well_formed.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace anello::schedule {
namespace {

class Simulation {
 public:
  Simulation(const Calls& calls, const Topology& topology, const std::vector<Schedule>& schedules,
             const Interleaving& interleaving)
      : calls_(calls),
        call_(calls_.shared()),
        size_(topology.size),
        schedules_(schedules),
        interleaving_(interleaving) {}

  Outcome run() {
    if (schedules_.size() != static_cast<std::size_t>(size_)) {
      wrong("not one schedule a rank");
      return std::move(outcome_);
    }
    outcome_.problem = why_malformed(calls_, schedules_);
    if (outcome_.problem.empty()) outcome_.problem = find_race(calls_, schedules_);
    if (outcome_.problem.empty()) {
      set_up();
      start();
      while (outcome_.problem.empty() && !events_.empty()) happen(pick());
      if (outcome_.problem.empty()) check_end();
    }
    return std::move(outcome_);
  }

 private:
  // Tokens stand for the data of calls that have none: the simulator checks which rank knows of which, instead of
  // elements.
  bool tokens() const {
    return call_.collective == Collective::barrier || (call_.count == 0 && !is_between_pairs(call_.collective));
  }

  struct Message {
    std::vector<Symbol> elements;
    Knowledge knowledge;
  };
  struct LaneState {
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    bool send_listed = false;  // in events_
    bool receive_listed = false;
    std::size_t back = 0;  // index of the peer's lane to this rank
    std::deque<Message> arriving;
  };
  struct Rank {
    std::vector<Symbol> buffers[kBuffers];
    std::vector<std::uint32_t> waits;
    std::vector<Knowledge> knowledge;  // by step; empty unless tokens()
    std::vector<LaneState> lanes;
    std::vector<Symbol> payload;  // on the board
    std::size_t done = 0;
  };
  enum class What : std::uint8_t { local, send, receive, post, gather, arrive, leave };
  struct Event {
    What what;
    int rank;
    std::uint32_t index;  // step; lane for send and receive
  };

  const Schedule& schedule(int rank) const { return schedules_[static_cast<std::size_t>(rank)]; }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<Symbol>& memory(int rank, Buffer buffer) { return at(rank).buffers[static_cast<int>(buffer)]; }

  template <class... Parts>
  void wrong(const Parts&... parts) {
    if (outcome_.problem.empty()) outcome_.problem = text(parts...);
  }
  std::string where(int rank, std::uint32_t step) const {
    return text("rank ", rank, ", step ", step, " (", describe(schedule(rank).steps[step]), ")");
  }

  void set_up() {
    outcome_.traffic.resize(schedules_.size());
    ranks_.resize(schedules_.size());
    for (int r = 0; r < size_; ++r) {
      for (const Buffer buffer : {Buffer::input, Buffer::output})
        memory(r, buffer).resize(extent(buffer, calls_.of(r), size_, r));
      memory(r, Buffer::scratch).resize(schedule(r).scratch);
      memory(r, Buffer::accumulator).resize(schedule(r).accumulator);
      memory(r, Buffer::staging).resize(schedule(r).staging);
      if (tokens())
        for (Symbol& token : memory(r, Buffer::scratch)) token.written = true;
      const bool inside = input_in_output(calls_.of(r), r);
      const std::size_t offset = inside ? input_offset(calls_.of(r), r) : 0;
      for (std::size_t i = 0; i < input_count(calls_.of(r), size_, r); ++i)
        memory(r, inside ? Buffer::output : Buffer::input)[offset + i] = leaf(r, i);
      at(r).waits = schedule(r).waits;
      if (tokens()) at(r).knowledge.assign(schedule(r).steps.size(), Knowledge(schedules_.size()));
      for (const Lane& lane : schedule(r).lanes) {
        at(r).lanes.emplace_back();
        at(r).lanes.back().back = lane_to(schedule(lane.peer), r);
      }
    }
  }

  void start() {
    for (int r = 0; r < size_; ++r)
      for (std::uint32_t s = 0; s < schedule(r).steps.size(); ++s) {
        if (tokens()) at(r).knowledge[s].learn(r);
        if (at(r).waits[s] == 0) ready(r, s);
      }
  }

  // Adds all events that this made possible to events_.
  void ready(int rank, std::uint32_t step) {
    const Step& what = schedule(rank).steps[step];
    if (what.kind == Kind::exchange) {
      events_.push_back({What::post, rank, step});
    } else if (what.kind == Kind::barrier) {
      events_.push_back({What::arrive, rank, step});
    } else if (what.peer < 0) {
      events_.push_back({What::local, rank, step});
    } else {
      const std::size_t l = lane_to(schedule(rank), what.peer);
      if (what.kind == Kind::send) return list_send(rank, l);
      list_receive(rank, l);
      list_send(what.peer, at(rank).lanes[l].back);
    }
  }
  bool receive_is_ready(int rank, std::size_t l, std::uint32_t k) {
    const Lane& lane = schedule(rank).lanes[l];
    return at(rank).lanes[l].received == k && at(rank).waits[lane.receives[k]] == 0;
  }
  void list_send(int rank, std::size_t l) {
    LaneState& state = at(rank).lanes[l];
    const Lane& lane = schedule(rank).lanes[l];
    if (state.send_listed || state.sent == lane.sends.size() || at(rank).waits[lane.sends[state.sent]] != 0) return;
    const std::uint64_t dice =
        mix(interleaving_.seed ^ mix(static_cast<std::uint64_t>(rank) << 32 | lane.sends[state.sent]));
    const bool eager = (dice & 255) < interleaving_.eager;
    if (!eager && !receive_is_ready(lane.peer, state.back, state.sent)) return;
    state.send_listed = true;
    events_.push_back({What::send, rank, static_cast<std::uint32_t>(l)});
  }
  void list_receive(int rank, std::size_t l) {
    LaneState& state = at(rank).lanes[l];
    if (state.receive_listed || state.arriving.empty() || !receive_is_ready(rank, l, state.received)) return;
    state.receive_listed = true;
    events_.push_back({What::receive, rank, static_cast<std::uint32_t>(l)});
  }

  std::uint32_t step_of(const Event& event) {
    if (event.what == What::send)
      return schedule(event.rank).lanes[event.index].sends[at(event.rank).lanes[event.index].sent];
    if (event.what == What::receive)
      return schedule(event.rank).lanes[event.index].receives[at(event.rank).lanes[event.index].received];
    return event.index;
  }
  Event pick() {
    random_ = mix(random_ ^ interleaving_.seed);
    std::size_t i = random_ % events_.size();
    if (events_[i].rank == interleaving_.starved_rank && step_of(events_[i]) == interleaving_.starved_step)
      i = (i + 1) % events_.size();
    std::swap(events_[i], events_.back());
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }

  void happen(const Event& event) {
    const std::uint32_t step = step_of(event);
    const Step& what = schedule(event.rank).steps[step];
    switch (event.what) {
      case What::local: compute(event.rank, step, what); return complete(event.rank, step);
      case What::post: return post(event.rank, step, what);
      case What::gather: gather(event.rank, what); return complete(event.rank, step);
      case What::arrive: return wait_for_all({What::leave, event.rank, step});
      case What::leave: return complete(event.rank, step);
      case What::send: return send(event.rank, event.index, step, what);
      case What::receive: return receive(event.rank, event.index, step, what);
    }
  }

  // For a slice of each rank, all ranks' elements, one rank after the other.
  std::vector<Symbol> read(int rank, std::uint32_t step, const Slice& slice) {
    std::vector<Symbol> elements;
    calls_.for_each_owner(rank, slice, [&](int owner, const Slice& there) {
      const auto begin = memory(owner, there.buffer).begin() + static_cast<std::ptrdiff_t>(there.offset);
      elements.insert(elements.end(), begin, begin + static_cast<std::ptrdiff_t>(there.count));
      if (owner != rank) outcome_.traffic[static_cast<std::size_t>(rank)].received += there.count;
    });
    for (const Symbol& element : elements)
      if (!element.written) wrong(where(rank, step), " reads what was never written");
    return elements;
  }
  // In rank order; this rank's elements come from its input.
  std::vector<Symbol> read_staged(int rank, std::uint32_t step, const Step& what) {
    std::vector<Symbol> all;
    for (int i = 0; i < operands_of(what, size_); ++i) {
      const int r = operand_of(what, i);
      const Slice there{Buffer::staging, what.staged, what.into.count, r};
      const std::vector<Symbol> its = read(rank, step, r == rank ? what.from : there);
      all.insert(all.end(), its.begin(), its.end());
    }
    return all;
  }
  void write(int rank, const Slice& slice, const std::vector<Symbol>& elements) {
    calls_.for_each_owner(rank, slice, [&](int owner, const Slice& there) {
      std::copy(elements.begin(), elements.end(),
                memory(owner, there.buffer).begin() + static_cast<std::ptrdiff_t>(there.offset));
      if (owner != rank) outcome_.traffic[static_cast<std::size_t>(rank)].sent += there.count;
    });
  }
  // The step's result, from the elements that it reads and, for recv_reduce, those that arrived.
  void compute(int rank, std::uint32_t step, const Step& what, const std::vector<Symbol>& arrived = {}) {
    const std::vector<Symbol> from =
        what.kind == Kind::reduce_staged ? read_staged(rank, step, what) : read(rank, step, what.from);
    const std::vector<Symbol> other = what.kind == Kind::reduce ? read(rank, step, what.into) : arrived;
    std::string problem;
    const std::vector<Symbol> result = arithmetic_.result(what, from, other, problem);
    write(rank, what.into, result);
    if (twin_of(what).count > 0) write(rank, twin_of(what), result);
    if (!problem.empty()) wrong(where(rank, step), " ", problem);
  }

  void send(int rank, std::uint32_t l, std::uint32_t step, const Step& what) {
    LaneState& state = at(rank).lanes[l];
    Message message{read(rank, step, what.from), Knowledge{}};
    if (tokens()) message.knowledge = at(rank).knowledge[step];
    outcome_.traffic[static_cast<std::size_t>(rank)].sent += what.from.count;
    ++outcome_.traffic[static_cast<std::size_t>(rank)].messages;
    at(what.peer).lanes[state.back].arriving.push_back(std::move(message));
    ++state.sent;
    state.send_listed = false;
    list_receive(what.peer, state.back);
    list_send(rank, l);
    complete(rank, step);
  }
  void receive(int rank, std::uint32_t l, std::uint32_t step, const Step& what) {
    LaneState& state = at(rank).lanes[l];
    Message message = std::move(state.arriving.front());
    state.arriving.pop_front();
    if (what.kind == Kind::recv_reduce)
      compute(rank, step, what, message.elements);
    else
      write(rank, what.into, message.elements);
    if (tokens()) at(rank).knowledge[step].learn(message.knowledge);
    outcome_.traffic[static_cast<std::size_t>(rank)].received += what.into.count;
    ++state.received;
    state.receive_listed = false;
    list_receive(rank, l);
    list_send(what.peer, state.back);
    complete(rank, step);
  }

  void post(int rank, std::uint32_t step, const Step& what) {
    at(rank).payload = read(rank, step, what.from);
    wait_for_all({What::gather, rank, step});
  }
  // Once all ranks have arrived, the next steps of each can happen.
  void wait_for_all(const Event& then) {
    waiting_.push_back(then);
    if (waiting_.size() < schedules_.size()) return;
    events_.insert(events_.end(), waiting_.begin(), waiting_.end());
    if (tokens())
      for (const Event& event : waiting_)
        for (int r = 0; r < size_; ++r) at(event.rank).knowledge[event.index].learn(r);
    waiting_.clear();
  }
  void gather(int rank, const Step& what) {
    for (std::size_t i = 0; i < what.into.count; ++i) {
      const Sources sources = sources_of(calls_, rank, i);
      Symbol result = at(sources.first).payload.at(sources.element);
      for (int r = sources.first + 1; r <= sources.last; ++r)
        result = combine(result, at(r).payload.at(sources.element));
      if (call_.finish) result = finished(result);
      memory(rank, what.into.buffer)[what.into.offset + i] = result;
    }
  }

  void complete(int rank, std::uint32_t step) {
    const Schedule& own = schedule(rank);
    ++at(rank).done;
    for (std::uint32_t f = own.follower_begin[step]; f < own.follower_begin[step + 1]; ++f) {
      const std::uint32_t follower = own.followers[f];
      if (tokens()) at(rank).knowledge[follower].learn(at(rank).knowledge[step]);
      if (--at(rank).waits[follower] == 0) ready(rank, follower);
    }
  }

  void check_end() {
    for (int r = 0; r < size_; ++r)
      if (at(r).done < schedule(r).steps.size()) return wrong("deadlock: ", stuck(r));
    if (!tokens()) {
      outcome_.problem = why_wrong(
          calls_, [&](int r) -> const auto& { return memory(r, Buffer::output); }, outcome_.digest);
      return;
    }
    for (int r = 0; r < size_; ++r) check_knowledge(r);
  }
  std::string stuck(int rank) {
    for (const Lane& lane : schedule(rank).lanes) {
      const LaneState& state = at(rank).lanes[lane_to(schedule(rank), lane.peer)];
      if (state.received < lane.receives.size()) return where(rank, lane.receives[state.received]) + " never ends";
      if (state.sent < lane.sends.size()) return where(rank, lane.sends[state.sent]) + " never ends";
    }
    return text("rank ", rank, " never ends");
  }
  void check_knowledge(int rank) {
    Knowledge all(schedules_.size());
    all.learn(rank);
    for (const Knowledge& knowledge : at(rank).knowledge) all.learn(knowledge);
    for (int r = 0; r < size_; ++r) {
      if (!all.has(r) && (call_.collective != Collective::broadcast || r == call_.root))
        return wrong("rank ", rank, " leaves before rank ", r, " has come");
    }
  }

  const Calls calls_;
  const Call& call_;  // for the properties that are equal on all ranks
  int size_;
  const std::vector<Schedule>& schedules_;
  const Interleaving& interleaving_;
  Outcome outcome_;
  std::vector<Rank> ranks_;
  std::vector<Event> events_;   // what can happen now
  std::vector<Event> waiting_;  // for the last rank to post or arrive
  std::uint64_t random_ = 0;
  const Arithmetic arithmetic_{call_, size_};
};

}  // namespace

Outcome simulate(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving) {
  return Simulation({{call}, topology.size}, topology, schedules, interleaving).run();
}

Outcome simulate(const Calls& calls, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving) {
  return Simulation(calls, topology, schedules, interleaving).run();
}

std::vector<Schedule> make_all(const Algorithm& algorithm, const Call& call, const Topology& topology,
                               std::size_t chunk) {
  return make_all(algorithm, Calls({call}, topology.size), topology, chunk);
}

std::vector<Schedule> make_all(const Algorithm& algorithm, const Calls& calls, const Topology& topology,
                               std::size_t chunk) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < topology.size; ++rank) {
    schedules.push_back(algorithm.make(calls.of(rank), topology, rank, chunk));
  }
  return schedules;
}

}  // namespace anello::schedule
