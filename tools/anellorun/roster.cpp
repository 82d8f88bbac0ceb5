#include "anellorun/roster.h"

#include "anellorun/options.h"

#include <algorithm>
#include <sstream>

namespace anellorun {
namespace {

using namespace std::chrono_literals;

constexpr auto kStarting = 30s;  // workers that are ready wait so long for others that start
constexpr auto kSoon = 60s;      // a worker that fails sooner than this after its start has not got far
constexpr int kMostFailures = 3;

std::string workers(int count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

}  // namespace

bool Roster::is_listed(const Slot& slot) const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const HostSlots& host) { return host.name == slot.host && slot.place < host.slots; });
}

bool Roster::may_start(const Slot& slot) const {
  const auto failed = failures_.find(slot);
  if (failed != failures_.end() && failed->second >= kMostFailures) return false;
  return std::none_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const Slot& taken = entry.second.slot;
    return !(taken < slot) && !(slot < taken);
  });
}

bool Roster::any_of_workers(const std::function<bool(const Worker&)>& holds) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) { return holds(entry.second); });
}

bool Roster::any(State state) const {
  return any_of_workers([state](const Worker& each) { return each.state == state; });
}

int Roster::staying() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& entry) { return !entry.second.leaves; }));
}

bool Roster::waits() const {
  if (closed_ || !workers_.empty()) return false;
  if (!wishes_.script.empty()) return true;
  for (const HostSlots& host : hosts_) {
    for (int place = 0; place < host.slots; ++place) {
      if (may_start({host.name, place})) return true;
    }
  }
  return false;
}

void Roster::list(std::vector<HostSlots> hosts, Clock::time_point now) {
  hosts_ = std::move(hosts);
  bool removed = false;
  for (auto& [number, worker] : workers_) {
    if (worker.leaves || is_listed(worker.slot)) continue;
    worker.leaves = removed = true;
    if (worker.state == State::ready) actions_.tell(number, "leave");
    if (opening_ == number) opening_.reset();
  }
  if (removed) tell_those_at_work("changed removed");
  fill(now);
  try_to_meet(now);
}

void Roster::fill(Clock::time_point now) {
  int room = wishes_.most - staying();
  for (const HostSlots& host : hosts_) {
    for (int place = 0; place < host.slots && room > 0 && !closed_;) {
      int count = 0;
      while (count < room && place + count < host.slots && may_start({host.name, place + count})) ++count;
      if (count == 0) {
        ++place;
        continue;
      }
      if (next_ + count > kMaxWorkers) return stop("too many ranks have been started, one after the other");
      const int first = next_;
      for (int i = 0; i < count; ++i) workers_[next_++] = Worker{{host.name, place + i}, now};
      actions_.start_workers(host, place, first, count);
      place += count;
      room -= count;
    }
  }
}

void Roster::told(int number, std::string_view message, Clock::time_point now) {
  const auto found = workers_.find(number);
  if (found == workers_.end()) return;
  Worker& worker = found->second;
  if (message == "ready 0" || message == "ready 1") {
    const bool joins = worker.state == State::starting;
    worker.state = State::ready;
    worker.has_met = message.back() == '1';
    if (opening_ == number) opening_.reset();
    if (worker.leaves) {
      actions_.tell(number, "leave");
    } else if (joins) {
      tell_those_at_work("changed added");
    }
    try_to_meet(now);
  } else if (message.substr(0, 6) == "place " && opening_ == number) {
    opening_.reset();
    meet(std::string(message.substr(6)));
  }
}

void Roster::ended(int number, bool succeeded, Clock::time_point now) {
  const auto found = workers_.find(number);
  if (found == workers_.end()) return;
  const Worker worker = found->second;
  workers_.erase(found);
  if (opening_ == number) opening_.reset();
  if (!worker.leaves) {
    // One that has done all its work takes part no more, and nobody takes its place.
    if (succeeded) closed_ = true;
    if (!succeeded) failures_[worker.slot] = now - worker.since < kSoon ? failures_[worker.slot] + 1 : 1;
  }
  fill(now);
  try_to_meet(now);
}

void Roster::tell_those_at_work(const std::string& message) {
  for (const auto& [number, worker] : workers_) {
    if (worker.state == State::at_work) actions_.tell(number, message);
  }
}

void Roster::try_to_meet(Clock::time_point now) {
  patient_until_.reset();
  const int needed = closed_ ? 1 : meetings_ == 0 ? wishes_.first : wishes_.least;
  const bool too_few = staying() < needed;
  if (!too_few) short_since_.reset();
  if (too_few && !short_since_) short_since_ = now;
  if (too_few && wishes_.script.empty() && !closed_ && !any(State::starting) && !any(State::at_work))
    return stop("only " + workers(staying()) + " can run, and " + std::to_string(needed) + " are needed");
  if (workers_.empty() || any(State::at_work) || !any(State::ready)) {
    ready_since_.reset();
    return;
  }
  if (opening_) return;
  if (!ready_since_) ready_since_ = now;
  const auto ready = std::count_if(workers_.begin(), workers_.end(), [](const auto& each) {
    return !each.second.leaves && each.second.state == State::ready;
  });
  const bool waits_for_others = now < *ready_since_ + kStarting && any_of_workers([](const Worker& each) {
                                  return each.state == State::starting && !each.leaves;
                                });
  if (waits_for_others) patient_until_ = *ready_since_ + kStarting;
  if (ready < needed || waits_for_others) return;
  if (meetings_ > 0 && wishes_.resets && meetings_ > *wishes_.resets)
    return stop("the ranks have met anew " + std::to_string(*wishes_.resets) +
                " times, which is all that --reset-limit allows");
  for (const auto& [number, worker] : workers_) {
    if (worker.leaves || worker.state != State::ready) continue;
    opening_ = number;
    return actions_.tell(number, "open");
  }
}

// Those who have met before come first, so that rank 0 has the state that the others need.
void Roster::meet(const std::string& place) {
  std::vector<int> order;
  int newcomers = 0;
  for (const bool met : {true, false}) {
    for (const auto& [number, worker] : workers_) {
      if (worker.leaves || worker.state != State::ready || worker.has_met != met) continue;
      order.push_back(number);
      newcomers += met ? 0 : 1;
    }
  }
  ready_since_.reset();
  ++meetings_;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    workers_[order[rank]].state = State::at_work;
    std::ostringstream words;
    words << "meet " << rank << ' ' << order.size() << ' ' << newcomers << ' ' << place;
    actions_.tell(order[rank], words.str());
  }
  if (meetings_ > 1) {
    actions_.say(workers(static_cast<int>(order.size())) + " go on" +
                 (newcomers > 0 ? ", " + std::to_string(newcomers) + " of them new" : ""));
  }
}

std::optional<Clock::time_point> Roster::deadline() const {
  std::optional<Clock::time_point> next = patient_until_;
  if (short_since_ && !closed_) {
    const std::chrono::duration<double> patience(wishes_.patience_seconds);
    const auto end = *short_since_ + std::chrono::duration_cast<Clock::duration>(patience);
    next = next ? std::min(*next, end) : end;
  }
  return next;
}

void Roster::keep_deadlines(Clock::time_point now) {
  const auto next = deadline();
  if (!next || now < *next) return;
  const std::chrono::duration<double> patience(wishes_.patience_seconds);
  if (short_since_ && !closed_ && now - *short_since_ >= patience) {
    std::ostringstream words;
    words << "only " << workers(staying()) << " could be started in " << wishes_.patience_seconds
          << " s (--elastic-timeout), and " << (meetings_ == 0 ? wishes_.first : wishes_.least) << " are needed";
    return stop(words.str());
  }
  try_to_meet(now);
}

void Roster::stop(const std::string& why) {
  if (closed_) return;
  closed_ = true;
  actions_.give_up(why);
}

}  // namespace anellorun
