#include "schedule/predict.h"

#include "schedule/hosts.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

namespace anello::schedule {
namespace {

struct Item {
  double at_s;
  std::size_t order;  // ties go to the step that became ready first
  int rank;
  std::uint32_t step;
  bool operator>(const Item& other) const { return std::tie(at_s, order) > std::tie(other.at_s, other.order); }
};

// One way of a rank's port, or of a host's link: it takes one message at a time, and the others wait here.
struct Way {
  static constexpr auto kIsLater = [](const Item& a, const Item& b) { return a.order > b.order; };
  double free_s = 0;
  std::priority_queue<Item, std::vector<Item>, decltype(kIsLater)> waiting;
  bool listed = false;  // to look at who waits when it is free
};

class Machine {
 public:
  Machine(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules, const Cost& cost)
      : call_(call),
        size_(topology.size),
        schedules_(schedules),
        cost_(cost),
        ranks_(schedules.size()),
        hosts_(topology) {
    ways_.resize(2 * (ranks_.size() + static_cast<std::size_t>(hosts_.count())));
  }

  // One rank in place of all; it is its own peer.
  Machine(const Call& call, const Topology& topology, int rank, const std::vector<Schedule>& schedule, const Cost& cost,
          int sharers)
      : Machine(call, topology, schedule, cost) {
    mirrored_ = rank;
    sharers_ = sharers;
    back_.assign(schedule.front().lanes.size(), kNoLane);
  }

  // Pairs each lane's sends with the lane whose receives bring the same. False: there is none.
  bool mirror() {
    const Schedule& own = schedule(0);
    std::vector<std::size_t> sends, receives;
    for (const Step& step : own.steps) {
      if (step.kind == Kind::send) {
        sends.push_back(lane_of(0, step.peer));
      } else if (step.peer >= 0) {
        receives.push_back(lane_of(0, step.peer));
      }
    }
    if (sends.size() != receives.size()) return false;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      if (std::exchange(back_[sends[i]], receives[i]) != kNoLane && back_[sends[i]] != receives[i]) return false;
    }
    return true;
  }

  Prediction run() {
    for (int r = 0; r < ranks(); ++r) {
      const Schedule& own = schedule(r);
      at(r).waits = own.waits;
      at(r).ready_s.assign(own.steps.size(), 0);
      at(r).lanes.resize(own.lanes.size());
      prediction_.spans.emplace_back(own.steps.size());
    }
    for (int r = 0; r < ranks(); ++r)
      for (std::uint32_t s = 0; s < schedule(r).steps.size(); ++s)
        if (at(r).waits[s] == 0) ready(r, s);
    while (!items_.empty()) {
      const Item item = items_.top();
      items_.pop();
      if (item.step == kWay)
        use(static_cast<std::size_t>(item.rank), item.at_s);
      else
        run(item);
    }
    return std::move(prediction_);
  }

 private:
  struct LaneState {
    std::size_t sent = 0;
    std::size_t received = 0;
    double receive_free_s = 0;
    std::deque<double> arrivals_s;
    bool send_listed = false;
    bool receive_listed = false;
  };
  struct Rank {
    std::vector<std::uint32_t> waits;
    std::vector<double> ready_s;
    std::vector<LaneState> lanes;
    double processor_free_s = 0;
  };

  static constexpr std::size_t kNoLane = ~std::size_t{0};
  static constexpr int kAll = -1;
  static constexpr std::uint32_t kWay = UINT32_MAX;  // an item that is a way's, and no step

  int ranks() const { return static_cast<int>(schedules_.size()); }
  const Schedule& schedule(int rank) const { return schedules_[static_cast<std::size_t>(rank)]; }
  int host_of(int rank) const { return hosts_.of(mirrored_ == kAll ? rank : mirrored_); }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  double bytes(const Slice& slice) const { return static_cast<double>(slice.count * call_.element_bytes); }
  static std::size_t way_of(int place, int inwards) { return static_cast<std::size_t>(2 * place + inwards); }
  std::size_t lane_of(int rank, int peer) const { return lane_to(schedule(rank), peer); }
  void list(double at_s, int rank, std::uint32_t step) { items_.push({at_s, order_++, rank, step}); }

  void ready(int rank, std::uint32_t step) {
    const Step& what = schedule(rank).steps[step];
    if (what.kind == Kind::send)
      list_send(rank, lane_of(rank, what.peer));
    else if (what.peer >= 0)
      list_receive(rank, lane_of(rank, what.peer));
    else if (what.kind == Kind::exchange || what.kind == Kind::barrier)
      post(rank, step);
    else
      list(at(rank).ready_s[step], rank, step);
  }
  void list_send(int rank, std::size_t l) {
    const Lane& lane = schedule(rank).lanes[l];
    LaneState& state = at(rank).lanes[l];
    if (state.send_listed || state.sent == lane.sends.size() || at(rank).waits[lane.sends[state.sent]] != 0) return;
    state.send_listed = true;
    list(at(rank).ready_s[lane.sends[state.sent]], rank, lane.sends[state.sent]);
  }
  void list_receive(int rank, std::size_t l) {
    const Lane& lane = schedule(rank).lanes[l];
    LaneState& state = at(rank).lanes[l];
    if (state.receive_listed || state.arrivals_s.empty() || at(rank).waits[lane.receives[state.received]] != 0) return;
    const std::uint32_t step = lane.receives[state.received];
    state.receive_listed = true;
    list(std::max({at(rank).ready_s[step], state.arrivals_s.front(), state.receive_free_s}), rank, step);
  }
  // All leave the board together, when the last rank has arrived.
  void post(int rank, std::uint32_t step) {
    posts_.push_back({at(rank).ready_s[step], 0, rank, step});
    posted_s_ = std::max(posted_s_, at(rank).ready_s[step]);
    if (posts_.size() < schedules_.size()) return;
    const double met_s = posted_s_ + cost_.latency_s + cost_.message_s;
    posted_s_ = 0;
    const double byte_s = size_ * std::max(cost_.reduce_byte_s, cost_.copy_byte_s);
    for (const Item& item : std::exchange(posts_, {})) {  // a step that follows the first one may be the next of these
      const Step& what = schedule(item.rank).steps[item.step];
      done(item, item.at_s, met_s + (what.kind == Kind::barrier ? 0 : bytes(what.into) * byte_s));
    }
  }
  // The first line of a peer's memory takes as long as a message; then all loaded and stored bytes count.
  double peers_memory_s(const Step& what) const {
    const int loads = what.from.owner == kEach || what.kind == Kind::reduce_staged ? operands_of(what, size_) : 1;
    const int stores = what.into.owner == kEach ? size_ : what.shown == kNotShown ? 1 : 2;
    return cost_.message_s + bytes(what.into) * (loads + stores) * cost_.memory_byte_s;
  }

  void run(const Item& item) {
    const Step& what = schedule(item.rank).steps[item.step];
    if (what.kind == Kind::send) return send(item, what);
    Rank& rank = at(item.rank);
    const double begin_s = std::max(item.at_s, rank.processor_free_s);
    double work_s = 0;
    if (what.kind == Kind::recv_reduce || what.kind == Kind::reduce) work_s = bytes(what.into) * cost_.reduce_byte_s;
    if (what.kind == Kind::copy || what.kind == Kind::finish) work_s = bytes(what.into) * cost_.copy_byte_s;
    if (touches_peers(what)) work_s = peers_memory_s(what);
    if (what.kind != Kind::recv) rank.processor_free_s = begin_s + work_s;
    const double end_s = what.kind == Kind::recv ? item.at_s : begin_s + work_s;
    if (what.peer >= 0) {
      const std::size_t l = lane_of(item.rank, what.peer);
      LaneState& state = rank.lanes[l];
      state.arrivals_s.pop_front();
      state.receive_listed = false;
      state.receive_free_s = end_s;
      ++state.received;
      list_receive(item.rank, l);
    }
    done(item, what.kind == Kind::recv ? item.at_s : begin_s, end_s);
  }
  void send(const Item& item, const Step& what) {
    Rank& from = at(item.rank);
    const int target = mirrored_ == kAll ? what.peer : item.rank;
    Rank& to = at(target);
    const bool together = host_of(item.rank) == hosts_.of(what.peer);
    const Passage& passage = together && hosts_.count() > 1 ? cost_.inside : cost_;
    const std::size_t used[] = {way_of(item.rank, 0), way_of(target, 1), way_of(ranks() + host_of(item.rank), 0),
                                way_of(ranks() + hosts_.of(what.peer), 1)};
    for (const std::size_t way : std::span(used, together ? 2 : 4))
      if (ways_[way].free_s > item.at_s) return wait(way, item);
    double begin_s = item.at_s;
    const double bytes_s = bytes(what.from) * passage.byte_s;
    // The rank that gets the shared link last stands for all.
    if (!together && !std::exchange(link_used_, true)) begin_s += bytes_s * (sharers_ - 1);
    const double end_s = begin_s + passage.message_s + bytes_s;
    ways_[used[0]].free_s = ways_[used[1]].free_s = end_s;
    if (!together) ways_[used[2]].free_s = ways_[used[3]].free_s = begin_s + bytes_s * sharers_;
    const std::size_t l = lane_of(item.rank, what.peer);
    const std::size_t back = mirrored_ == kAll ? lane_of(what.peer, item.rank) : back_[l];
    from.lanes[l].send_listed = false;
    ++from.lanes[l].sent;
    to.lanes[back].arrivals_s.push_back(end_s + passage.latency_s);
    list_receive(target, back);
    list_send(item.rank, l);
    done(item, begin_s, end_s);
  }
  // Whoever became ready first goes first. The next send of a lane that was just served would otherwise come before
  // those of other lanes, and a root's chunks would all go to one child.
  void wait(std::size_t way, const Item& item) {
    ways_[way].waiting.push(item);
    list_way(way);
  }
  void list_way(std::size_t w) {
    Way& way = ways_[w];
    if (way.waiting.empty() || std::exchange(way.listed, true)) return;
    items_.push({way.free_s, way.waiting.top().order, static_cast<int>(w), kWay});
  }
  void use(std::size_t w, double now_s) {
    Way& way = ways_[w];
    way.listed = false;
    while (!way.waiting.empty() && way.free_s <= now_s) {
      Item item = way.waiting.top();
      way.waiting.pop();
      item.at_s = now_s;
      run(item);  // or it waits for another way
    }
    list_way(w);
  }
  void done(const Item& item, double begin_s, double end_s) {
    prediction_.spans[static_cast<std::size_t>(item.rank)][item.step] = {begin_s, end_s};
    prediction_.seconds = std::max(prediction_.seconds, end_s);
    const Schedule& own = schedule(item.rank);
    for (std::uint32_t f = own.follower_begin[item.step]; f < own.follower_begin[item.step + 1]; ++f) {
      const std::uint32_t follower = own.followers[f];
      double& ready_s = at(item.rank).ready_s[follower];
      ready_s = std::max(ready_s, end_s);
      if (--at(item.rank).waits[follower] == 0) ready(item.rank, follower);
    }
  }

  const Call& call_;
  int size_;
  const std::vector<Schedule>& schedules_;
  const Cost& cost_;
  std::vector<Rank> ranks_;
  const Hosts hosts_;
  int mirrored_ = kAll;  // the rank that stands for all
  int sharers_ = 1;      // ranks of its host that use the host's link
  bool link_used_ = false;
  std::vector<std::size_t> back_;
  std::vector<Way> ways_;  // out of and into each rank, then each host
  std::priority_queue<Item, std::vector<Item>, std::greater<>> items_;
  std::vector<Item> posts_;
  double posted_s_ = 0;
  std::size_t order_ = 0;
  Prediction prediction_;
};

}  // namespace

Cost typical_cost(bool network) {
  constexpr Passage kMemory{0.3e-6, 0.1e-6, 1 / 8e9};
  constexpr Passage kNetwork{12e-6, 2e-6, 8 / 25e9};
  Cost cost;
  static_cast<Passage&>(cost) = network ? kNetwork : kMemory;
  cost.inside = kMemory;
  cost.reduce_byte_s = 1 / 8e9;
  cost.copy_byte_s = 1 / 10e9;
  cost.memory_byte_s = 1 / 20e9;  // a copy loads and stores each byte
  return cost;
}

Prediction predict(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules,
                   const Cost& cost) {
  return Machine(call, topology, schedules, cost).run();
}

double predict_in_step(const Call& call, const Topology& topology, const Cost& cost,
                       const std::function<Schedule(int rank)>& schedule_of) {
  const Hosts hosts(topology);
  std::vector<std::vector<Schedule>> own;
  int sharers = 0;  // of the host's link
  for (const int rank : hosts.ranks(0)) {
    own.push_back({schedule_of(rank)});
    const std::vector<Step>& steps = own.back().front().steps;
    sharers += std::any_of(steps.begin(), steps.end(),
                           [&](const Step& step) { return step.kind == Kind::send && hosts.of(step.peer) != 0; });
  }
  double seconds = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    Machine machine(call, topology, hosts.ranks(0)[i], own[i], cost, std::max(sharers, 1));
    if (!machine.mirror()) return -1;
    seconds = std::max(seconds, machine.run().seconds);
  }
  return seconds;
}

}  // namespace anello::schedule
