#include "schedule/simulate.h"

#include "base/text.h"
#include "schedule/builder.h"
#include "schedule/print.h"
#include "schedule/shape.h"
#include "schedule/symbol.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace anello::schedule {
namespace {

using Knowledge = std::vector<std::uint64_t>;  // a bit a rank: has entered the call

void learn(Knowledge& into, const Knowledge& from) {
  for (std::size_t w = 0; w < into.size(); ++w) into[w] |= from[w];
}

class Simulation {
 public:
  Simulation(const std::vector<Call>& calls, const Topology& topology, const std::vector<Schedule>& schedules,
             const Interleaving& interleaving)
      : calls_(calls), call_(calls_[0]), size_(topology.size), schedules_(schedules), interleaving_(interleaving) {}

  Outcome run() {
    if (schedules_.size() != static_cast<std::size_t>(size_)) {
      wrong("not one schedule a rank");
      return std::move(outcome_);
    }
    set_up();
    if (well_formed()) {
      start();
      while (outcome_.problem.empty() && !events_.empty()) happen(pick());
      if (outcome_.problem.empty()) check_end();
    }
    return std::move(outcome_);
  }

 private:
  // Tokens stand for calls without data: who knows of whom is checked instead of elements.
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
    std::vector<Symbol> buffers[4];
    std::vector<std::uint32_t> waits;
    std::vector<Knowledge> knowledge;  // by step; empty unless tokens()
    std::vector<LaneState> lanes;
    std::vector<Symbol> payload;  // on the board
    std::size_t done = 0;
  };
  enum class What : std::uint8_t { local, send, receive, post, gather };
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
        memory(r, buffer).resize(extent(buffer, call(r), size_, r));
      memory(r, Buffer::scratch).resize(schedule(r).scratch);
      memory(r, Buffer::accumulator).resize(schedule(r).accumulator);
      if (tokens())
        for (Symbol& token : memory(r, Buffer::scratch)) token.written = true;
      const bool inside = input_in_output(call(r), r);
      const std::size_t offset = inside ? input_offset(call(r), r) : 0;
      for (std::size_t i = 0; i < input_count(call(r), size_, r); ++i)
        memory(r, inside ? Buffer::output : Buffer::input)[offset + i] = leaf(r, i);
      at(r).waits = schedule(r).waits;
      if (tokens()) at(r).knowledge.assign(schedule(r).steps.size(), Knowledge(schedules_.size() / 64 + 1));
      at(r).lanes.resize(schedule(r).lanes.size());
    }
  }

  bool well_formed() {
    for (int r = 0; r < size_; ++r) {
      const Schedule& own = schedule(r);
      for (std::uint32_t s = 0; s < own.steps.size(); ++s) {
        for (const Slice* slice : {&own.steps[s].into, &own.steps[s].from})
          if (slice->offset + slice->count > memory(r, slice->buffer).size())
            wrong(where(r, s), " goes past the end of its buffer");
        if (own.steps[s].kind != Kind::send && own.steps[s].into.buffer == Buffer::input &&
            own.steps[s].into.count > 0)
          wrong(where(r, s), " writes the input");
        if (own.steps[s].kind == Kind::send && own.steps[s].from.buffer == Buffer::accumulator)
          wrong(where(r, s), " sends an accumulator");
        if (own.steps[s].kind == Kind::exchange && own.steps[s].from.count != input_count(call_, size_, r))
          wrong(where(r, s), " posts another count than the call's");
      }
      for (std::size_t l = 0; l < own.lanes.size(); ++l) meet(r, l);
    }
    return outcome_.problem.empty();
  }

  // The k-th send meets the k-th receive: both must be there and of one size.
  void meet(int r, std::size_t l) {
    const Lane& mine = schedule(r).lanes[l];
    if (mine.peer < 0 || mine.peer >= size_ || mine.peer == r) return wrong("rank ", r, " has a lane to ", mine.peer);
    const Schedule& other = schedule(mine.peer);
    const auto theirs = std::find_if(other.lanes.begin(), other.lanes.end(), [&](const Lane& x) { return x.peer == r; });
    const std::size_t expected = theirs == other.lanes.end() ? 0 : theirs->receives.size();
    if (theirs == other.lanes.end() || expected != mine.sends.size())
      return wrong("rank ", r, " sends ", mine.sends.size(), " messages to rank ", mine.peer, ", which expects ", expected);
    at(r).lanes[l].back = static_cast<std::size_t>(theirs - other.lanes.begin());
    for (std::size_t k = 0; k < expected; ++k) {
      const Step& send = schedule(r).steps[mine.sends[k]];
      const Step& receive = other.steps[theirs->receives[k]];
      if (send.peer != mine.peer || receive.peer != r) return wrong("a step is in the wrong lane");
      if (send.from.count != receive.into.count)
        return wrong("rank ", r, "'s message ", k, " to rank ", mine.peer, " has ", send.from.count,
                     " elements, but ", receive.into.count, " are expected");
    }
  }

  void start() {
    for (int r = 0; r < size_; ++r)
      for (std::uint32_t s = 0; s < schedule(r).steps.size(); ++s) {
        if (tokens()) know(r, s, r);
        if (at(r).waits[s] == 0) ready(r, s);
      }
  }
  void know(int rank, std::uint32_t step, int of) {
    const auto bit = static_cast<std::size_t>(of);
    at(rank).knowledge[step][bit / 64] |= std::uint64_t{1} << (bit % 64);
  }

  // Whatever this made possible goes to events_.
  void ready(int rank, std::uint32_t step) {
    const Step& what = schedule(rank).steps[step];
    if (what.kind == Kind::exchange) {
      events_.push_back({What::post, rank, step});
    } else if (what.peer < 0) {
      events_.push_back({What::local, rank, step});
    } else {
      const std::size_t l = lane_of(rank, what.peer);
      if (what.kind == Kind::send) return list_send(rank, l);
      list_receive(rank, l);
      list_send(what.peer, at(rank).lanes[l].back);
    }
  }
  std::size_t lane_of(int rank, int peer) const {
    const auto& lanes = schedule(rank).lanes;
    return static_cast<std::size_t>(
        std::lower_bound(lanes.begin(), lanes.end(), peer, [](const Lane& l, int p) { return l.peer < p; }) -
        lanes.begin());
  }
  bool receive_is_ready(int rank, std::size_t l, std::uint32_t k) {
    const Lane& lane = schedule(rank).lanes[l];
    return at(rank).lanes[l].received == k && at(rank).waits[lane.receives[k]] == 0;
  }
  void list_send(int rank, std::size_t l) {
    LaneState& state = at(rank).lanes[l];
    const Lane& lane = schedule(rank).lanes[l];
    if (state.send_listed || state.sent == lane.sends.size() || at(rank).waits[lane.sends[state.sent]] != 0) return;
    const std::uint64_t dice = mix(interleaving_.seed ^ mix(static_cast<std::uint64_t>(rank) << 32 | lane.sends[state.sent]));
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
    if (event.what == What::send) return schedule(event.rank).lanes[event.index].sends[at(event.rank).lanes[event.index].sent];
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
      case What::local: local(event.rank, step, what); return complete(event.rank, step);
      case What::post: return post(event.rank, step, what);
      case What::gather: gather(event.rank, what); return complete(event.rank, step);
      case What::send: return send(event.rank, event.index, step, what);
      case What::receive: return receive(event.rank, event.index, step, what);
    }
  }

  std::vector<Symbol> read(int rank, std::uint32_t step, const Slice& slice) {
    const auto begin = memory(rank, slice.buffer).begin() + static_cast<std::ptrdiff_t>(slice.offset);
    std::vector<Symbol> elements(begin, begin + static_cast<std::ptrdiff_t>(slice.count));
    for (const Symbol& element : elements)
      if (!element.written) wrong(where(rank, step), " reads what was never written");
    return elements;
  }
  void write(int rank, const Slice& slice, const std::vector<Symbol>& elements) {
    std::copy(elements.begin(), elements.end(),
              memory(rank, slice.buffer).begin() + static_cast<std::ptrdiff_t>(slice.offset));
  }
  std::vector<Symbol> folded(int rank, std::uint32_t step, const std::vector<Symbol>& left,
                             const std::vector<Symbol>& right) {
    std::vector<Symbol> result(left.size());
    const bool rounds = call_.accumulate && schedule(rank).steps[step].into.buffer != Buffer::accumulator;
    for (std::size_t i = 0; i < left.size(); ++i) {
      result[i] = combine(left[i], right[i]);
      if (left[i].finished || right[i].finished) wrong(where(rank, step), " reduces what was finished");
      if (rounds && size_ > 2) wrong(where(rank, step), " rounds a partial result");
    }
    return result;
  }

  void local(int rank, std::uint32_t step, const Step& what) {
    std::vector<Symbol> from = read(rank, step, what.from);
    if (what.kind == Kind::reduce) {
      const std::vector<Symbol> into = read(rank, step, what.into);
      from = what.reversed ? folded(rank, step, from, into) : folded(rank, step, into, from);
    } else if (what.kind == Kind::finish) {
      finish(rank, step, from);
    } else if (what.from.buffer == Buffer::accumulator && what.into.buffer != Buffer::accumulator) {
      wrong(where(rank, step), " takes an accumulator without finishing it");
    }
    write(rank, what.into, from);
  }
  void finish(int rank, std::uint32_t step, std::vector<Symbol>& elements) {
    for (Symbol& element : elements) {
      if (element.inputs != static_cast<std::uint32_t>(size_) && !is_prefix(call_.collective)) wrong(where(rank, step), " finishes a partial result");
      if (element.finished) wrong(where(rank, step), " finishes twice");
      if (call_.finish) element = finished(element);
    }
  }

  void send(int rank, std::uint32_t l, std::uint32_t step, const Step& what) {
    LaneState& state = at(rank).lanes[l];
    Message message{read(rank, step, what.from), {}};
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
    if (what.kind == Kind::recv_reduce) {
      const std::vector<Symbol> from = read(rank, step, what.from);
      message.elements =
          what.reversed ? folded(rank, step, message.elements, from) : folded(rank, step, from, message.elements);
    }
    write(rank, what.into, message.elements);
    if (tokens()) learn(at(rank).knowledge[step], message.knowledge);
    outcome_.traffic[static_cast<std::size_t>(rank)].received += what.into.count;
    ++state.received;
    state.receive_listed = false;
    list_receive(rank, l);
    list_send(what.peer, state.back);
    complete(rank, step);
  }

  void post(int rank, std::uint32_t step, const Step& what) {
    at(rank).payload = read(rank, step, what.from);
    posts_.push_back({What::gather, rank, step});
    if (posts_.size() < schedules_.size()) return;
    events_.insert(events_.end(), posts_.begin(), posts_.end());
    if (tokens())
      for (const Event& event : posts_)
        for (int r = 0; r < size_; ++r) know(event.rank, event.index, r);
  }
  void gather(int rank, const Step& what) {
    for (std::size_t i = 0; i < what.into.count; ++i) {
      const Sources sources = sources_of(rank, i);
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
      if (tokens()) learn(at(rank).knowledge[follower], at(rank).knowledge[step]);
      if (--at(rank).waits[follower] == 0) ready(rank, follower);
    }
  }

  void check_end() {
    for (int r = 0; r < size_; ++r)
      if (at(r).done < schedule(r).steps.size()) return wrong("deadlock: ", stuck(r));
    for (int r = 0; r < size_; ++r)
      if (tokens())
        check_knowledge(r);
      else
        check_result(r);
  }
  std::string stuck(int rank) {
    for (const Lane& lane : schedule(rank).lanes) {
      const LaneState& state = at(rank).lanes[lane_of(rank, lane.peer)];
      if (state.received < lane.receives.size()) return where(rank, lane.receives[state.received]) + " never ends";
      if (state.sent < lane.sends.size()) return where(rank, lane.sends[state.sent]) + " never ends";
    }
    return text("rank ", rank, " never ends");
  }
  void check_knowledge(int rank) {
    Knowledge all(schedules_.size() / 64 + 1);
    all[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (static_cast<std::size_t>(rank) % 64);
    for (const Knowledge& knowledge : at(rank).knowledge) learn(all, knowledge);
    for (int r = 0; r < size_; ++r) {
      const bool known = (all[static_cast<std::size_t>(r) / 64] >> (static_cast<std::size_t>(r) % 64) & 1) != 0;
      if (!known && (call_.collective != Collective::broadcast || r == call_.root))
        return wrong("rank ", rank, " leaves before rank ", r, " has come");
    }
  }
  // What a result is made of: an element of the input of each of these ranks.
  struct Sources {
    int first;
    int last;
    std::size_t element;
  };
  Sources sources_of(int rank, std::size_t i) const {
    const auto own_part = static_cast<std::size_t>(rank) * call_.count;
    const auto sender = call_.count > 0 ? static_cast<int>(i / call_.count) : 0;
    switch (call_.collective) {
      case Collective::broadcast: return {call_.root, call_.root, i};
      case Collective::scatter: return {call_.root, call_.root, own_part + i};
      case Collective::allgather:
      case Collective::gather: return {sender, sender, i % call_.count};
      case Collective::alltoall: return {sender, sender, own_part + i % call_.count};
      case Collective::reduce_scatter: return {0, size_ - 1, own_part + i};
      case Collective::scan: return {0, rank, i};
      case Collective::exscan: return {0, rank - 1, i};
      case Collective::allgatherv:
      case Collective::gatherv:
      case Collective::scatterv:
      case Collective::alltoallv: {
        const int from = sender_of(rank, i);
        const std::size_t in_part = i - call(rank).varying->receive_at[static_cast<std::size_t>(from)];
        return {from, from, call(from).varying->send_at[static_cast<std::size_t>(rank)] + in_part};
      }
      case Collective::reduce_scatterv: return {0, size_ - 1, call(rank).varying->send_at[static_cast<std::size_t>(rank)] + i};
      case Collective::allreduce:
      case Collective::reduce:
      case Collective::barrier: break;
    }
    return {0, size_ - 1, i};
  }
  // Whose part element i of the output is in; -1: nobody's.
  int sender_of(int rank, std::size_t i) const {
    const Varying& parts = *call(rank).varying;
    for (std::size_t p = 0; p < parts.receives.size(); ++p)
      if (i >= parts.receive_at[p] && i - parts.receive_at[p] < parts.receives[p]) return static_cast<int>(p);
    return -1;
  }
  // What lies between parts is the caller's.
  void check_gap(int rank, std::size_t i, const Symbol& found) {
    const bool inside = input_in_output(call(rank), rank) && i >= input_offset(call(rank), rank) &&
                        i - input_offset(call(rank), rank) < input_count(call(rank), size_, rank);
    const bool same = inside ? found.hash == leaf(rank, i - input_offset(call(rank), rank)).hash : !found.written;
    if (!same) wrong("rank ", rank, "'s element ", i, " is in no part and was written");
  }

  void check_result(int rank) {
    for (std::size_t i = 0; i < result_count(call(rank), size_, rank); ++i) {
      const Symbol& result = memory(rank, Buffer::output)[i];
      outcome_.digest = mix(outcome_.digest ^ result.hash);
      if (call_.varying != nullptr && sender_of(rank, i) < 0) {
        check_gap(rank, i, result);
        continue;
      }
      if (!result.written) return wrong("rank ", rank, "'s result ", i, " was never written");
      const Sources sources = sources_of(rank, i);
      if (reduces(call_.collective))
        check_reduced(rank, i, result, sources);
      else if (result.hash != leaf(sources.first, sources.element).hash)
        return wrong("rank ", rank, "'s element ", i, " is not rank ", sources.first, "'s ", sources.element);
    }
    if (call_.collective == Collective::exscan && rank == 0)
      for (std::size_t i = 0; i < memory(0, Buffer::output).size(); ++i)
        if (memory(0, Buffer::output)[i].hash != leaf(0, i).hash) return wrong("rank 0's buffer was touched");
  }
  void check_reduced(int rank, std::size_t i, const Symbol& result, const Sources& sources) {
    if (call_.collective == Collective::allreduce && rank > 0) {  // rank 0's was checked
      if (result.hash != memory(0, Buffer::output)[i].hash)
        wrong("rank ", rank, "'s result ", i, " has other bits than rank 0's");
      return;
    }
    std::uint64_t origins = 0;
    Symbol fold = leaf(sources.first, sources.element);
    for (int r = sources.first; r <= sources.last; ++r) {
      origins += fingerprint(r, sources.element);
      if (r > sources.first) fold = combine(fold, leaf(r, sources.element));
    }
    if (call_.finish) fold = finished(fold);
    if (result.inputs != static_cast<std::uint32_t>(sources.last - sources.first + 1) || result.origins != origins)
      return wrong("rank ", rank, "'s result ", i, " has not every rank's element in it once (", result.inputs, " inputs)");
    if (result.finished != call_.finish)
      return wrong("rank ", rank, "'s result ", i, call_.finish ? " was not finished" : " was finished");
    if (call_.invariant && fold.hash != result.hash)
      return wrong("rank ", rank, "'s result ", i, " is not the fold in rank order");
  }

  const Call& call(int rank) const { return calls_[calls_.size() == 1 ? 0 : static_cast<std::size_t>(rank)]; }

  const std::vector<Call> calls_;  // one, or each rank's
  const Call& call_;                // for what all have alike
  int size_;
  const std::vector<Schedule>& schedules_;
  const Interleaving& interleaving_;
  Outcome outcome_;
  std::vector<Rank> ranks_;
  std::vector<Event> events_;  // what can happen now
  std::vector<Event> posts_;   // gathers that wait for the last payload
  std::uint64_t random_ = 0;
};

}  // namespace

Outcome simulate(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving) {
  return Simulation({call}, topology, schedules, interleaving).run();
}

Outcome simulate(const std::vector<Call>& calls, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving) {
  return Simulation(calls, topology, schedules, interleaving).run();
}

std::vector<Schedule> make_all(const Algorithm& algorithm, const Call& call, const Topology& topology,
                               std::size_t chunk) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < topology.size; ++rank) schedules.push_back(algorithm.make(call, topology, rank, chunk));
  return schedules;
}

}  // namespace anello::schedule
