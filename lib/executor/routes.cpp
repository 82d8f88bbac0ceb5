#include "executor/routes.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/uncancelled.h"
#include "executor/activity.h"
#include "executor/gets.h"
#include "executor/outcomes.h"
#include "health/peer_fates.h"
#include "kernels/default_floats.h"
#include "progress/driver.h"
#include "transports/registry.h"

#include <algorithm>
#include <array>
#include <new>
#include <numeric>
#include <utility>

#include <sched.h>

namespace anello::executor {

Routes::Routes(Parts& parts, std::vector<AvailableTransport> transports)
    : parts_(parts),
      job_(parts.job),
      descriptors_(parts.driver.descriptors()),
      transports_(std::move(transports)),
      transport_of_(std::size_t(job_.size())),
      memory_of_(std::size_t(job_.size())),
      routes_(std::size_t(job_.size())) {
  for (const AvailableTransport& each : transports_) {  // best first
    transport::RemoteMemory* const memory = each.transport->remote_memory();
    if (memory != nullptr) memories_.push_back(memory);
    for (const control::Member& member : job_.members()) {
      const auto world = std::size_t(member.rank);
      if (member.rank == job_.rank()) continue;
      if (member.transport() == each.bit) transport_of_[world] = each.transport.get();
      if (memory == nullptr || memory->is_far() || (member.transports & each.bit) == 0) continue;
      if (memory_of_[world] == nullptr) memory_of_[world] = memory;
    }
  }
}

transport::RemoteMemory& Routes::device_memory(int device) {
  std::unique_ptr<transport::RemoteMemory>& found = device_memories_[device];
  if (found == nullptr) {
    found = transport::make_device_memory(device,
                                          [this](int world, std::uint64_t key) { job_.request_region(world, key); });
  }
  return *found;
}

void Routes::answered(int world, std::uint64_t key, memory::PassedRange memory) {
  for (const auto& [device, each] : device_memories_) {
    if (each->awaits(key)) each->answered(key, memory.copy());
  }
  if (transport::RemoteMemory* const host = memory_of(world); host != nullptr) host->answered(key, std::move(memory));
}

Route& Routes::to(int world) {
  std::unique_ptr<Route>& slot = routes_[std::size_t(world)];
  if (slot == nullptr) {
    slot = std::make_unique<Route>(parts_, world, job_.members()[std::size_t(world)].local_index);
  }
  return *slot;
}

void Routes::set_up(Flow& flow) {
  const int world = flow.group->ranks[std::size_t(flow.peer)];
  if (world == job_.rank()) return;
  flow.route = &to(world);
  parts_.gets.set_up(flow);
}

void Routes::want_to_send(Flow& flow) {
  if (flow.route == nullptr) return;
  Route& route = *flow.route;
  if (parts_.fates.takes_nothing(route.peer())) return;
  route.list(flow);
  if (route.state() == Route::State::closed) begin_opening(route);
}

void Routes::begin_opening(Route& route) {
  if (transport_to(route.peer()).needs_connection()) {
    route.request();
    job_.request_lane(route.peer());
  } else {
    open(route, {});
  }
}

void Routes::open(Route& route, transport::Connections connections) {
  try {
    make_lane(route, std::move(connections));
  } catch (const Error& error) {
    parts_.outcomes.fail_all_with(route.peer(), error, true);
  } catch (const std::bad_alloc&) {
    parts_.outcomes.fail_all_with(route.peer(), no_memory(job_, kOperationNeeds), true);
  }
}

void Routes::make_lane(Route& route, transport::Connections connections) {
  if (route.state() == Route::State::open || route.state() == Route::State::broken) return;
  const Uncancelled whole;
  transport::Transport& transport = transport_to(route.peer());
  const std::size_t rails = connections.rails.size();
  route.open(transport.open(route.peer(), route.local_peer(), std::move(connections)));
  open_.push_back(&route);
  watch(route, true);
  log::info(job_.rank(), job_.describe(route.peer()), " over ", transport.name(),
            rails > 1 ? text(" on ", rails, " rails") : std::string());
}

// A sender alone opens such a lane; its bit in the inbox says so.
void Routes::open_asked() {
  const memory::Arena& arena = job_.arena();
  if (!arena) return;
  memory::Inbox& inbox = arena.inbox(arena.index());
  for (int word = 0; word * 64 < arena.ranks(); ++word) {
    if (inbox.first_use[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t bits = inbox.first_use[word].exchange(0, std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      const int local = word * 64 + __builtin_ctzll(bits);
      const control::Member& self = job_.members()[std::size_t(job_.rank())];
      for (const control::Member& member : job_.members()) {
        if (member.local_index != local || member.machine != self.machine || member.rank == self.rank) continue;
        Route& route = to(member.rank);
        if (route.state() == Route::State::closed && !transport_to(member.rank).needs_connection()) open(route, {});
      }
    }
  }
}

void Routes::take_out(Route& route) {
  open_.erase(std::remove(open_.begin(), open_.end(), &route), open_.end());
  has_broken_ = true;
  // Otherwise its end of file would keep every thread awake that waits on descriptors.
  if (const int descriptor = route.endpoint()->descriptor(); descriptor >= 0) {
    sockets_ -= route.endpoint()->must_be_polled() ? 0 : 1;
    descriptors_.remove(descriptor);
  }
}

// An answer, credit, or the rest of a frame may have found its lane full, though its operation is done. The peer may
// wait for it while this rank does something else, so the lane counts as an operation in flight until it has left.
void Routes::count_unsent() {
  Activity& activity = parts_.activity;
  for (std::size_t i = 0; activity.unfinished == 0 && i < open_.size(); ++i) {
    Route& route = *open_[i];
    if (route.is_counted || route.drained()) continue;
    route.is_counted = true;
    ++activity.unfinished;
  }
}

void Routes::uncount_unsent(Route& route) {
  if (std::exchange(route.is_counted, false)) --parts_.activity.unfinished;
}

void Routes::push_or_watch(Route& route) {
  route.push();
  if (parts_.activity.unfinished > 0 || !route.has_work()) return;
  const kernels::DefaultFloats floats;
  parts_.driver.watch_soon();
}

void Routes::mark_ready_sockets() {
  const Uncancelled whole;
  std::array<epoll_event, 64> events;
  const int count = descriptors_.wait(events, 0);
  for (int i = 0; i < count; ++i) {
    if (void* const route = events[std::size_t(i)].data.ptr) static_cast<Route*>(route)->heard = true;
  }
}

bool Routes::move() {
  bool moved = false;
  // One system call for all sockets pays once there are more of them than this.
  constexpr int kAskEach = 2;
  const bool ask_all = sockets_ > kAskEach;
  if (ask_all) mark_ready_sockets();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    Route& route = *open_[i];
    const bool silent =
        ask_all && !route.heard && !route.endpoint()->must_be_polled() && route.endpoint()->remaining() == 0;
    moved |= !silent && route.pull();
  }
  // All lanes pull before any pushes: a frame from one may cause a send over any other.
  for (std::size_t i = 0; i < open_.size(); ++i) moved |= open_[i]->push();
  return moved;
}

bool Routes::arm() {
  bool something = false;
  for (Route* route : open_) {
    if (!route->is_open()) continue;
    something |= route->endpoint()->before_sleep();
    watch(*route, false);
  }
  return something;
}

void Routes::watch(Route& route, bool add) {
  const int descriptor = route.endpoint()->descriptor();
  if (descriptor < 0) return;
  const std::uint32_t events = EPOLLIN | (route.endpoint()->wants_room() ? EPOLLOUT : 0u);
  if (!add && route.interest == events) return;
  route.interest = events;
  if (add) {
    sockets_ += route.endpoint()->must_be_polled() ? 0 : 1;
    descriptors_.add(descriptor, events, &route);
  } else {
    descriptors_.modify(descriptor, events, &route);
  }
}

std::size_t Routes::rest_of_frames() const {
  if (sockets_ == 0 || std::size_t(sockets_) < open_.size()) return 0;
  std::size_t most = 0;
  for (const Route* route : open_) {
    if (route->is_open()) most = std::max(most, route->endpoint()->remaining());
  }
  return most;
}

// A peer that takes nothing within the limit has stopped, and each rank that waits for it has its own deadline.
void Routes::drain() {
  const Deadline limit = Deadline::in_ms(1000);
  const auto all_drained = [this] {
    return std::all_of(open_.begin(), open_.end(), [](Route* route) { return route->drained(); });
  };
  while (!all_drained() && !limit.passed()) sched_yield();
  wait_until_sent();
}

void Routes::wait_until_sent() const {
  const auto on_the_way = [this] {
    return std::accumulate(open_.begin(), open_.end(), std::size_t{0},
                           [](std::size_t sum, const Route* route) { return sum + route->endpoint()->on_the_way(); });
  };
  constexpr int kPatienceMs = 2000;
  Deadline limit = Deadline::in_ms(kPatienceMs);
  std::size_t before = on_the_way();
  while (before > 0 && !limit.passed()) {
    const timespec nap{0, 500'000};
    nanosleep(&nap, nullptr);
    const std::size_t now = on_the_way();
    if (now != before) limit = Deadline::in_ms(kPatienceMs);
    before = now;
  }
}

}  // namespace anello::executor
