// Context: moving what can move, and waiting for what cannot.
#include "base/bell.h"
#include "base/clock.h"
#include "base/processor.h"
#include "base/uncancelled.h"
#include "executor/context.h"
#include "executor/run.h"

#include <algorithm>
#include <new>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace anello::executor {

// Marks the routes whose sockets have something to give.
void Context::hear_sockets() {
  const Uncancelled whole;
  epoll_event events[64];
  const int count = ::epoll_wait(epoll_.get(), events, 64, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr != nullptr) static_cast<Route*>(events[i].data.ptr)->heard = true;
  }
}

// Moves everything once. True when something moved.
bool Context::progress() {
  try {
    const bool moved = move_all();
    if (any_gone_ && (moved || gone_look_due_)) {
      gone_look_due_ = moved;
      if (!moved) check_gone(true);
    }
    return moved;
  } catch (const std::bad_alloc&) {
    // Whose it was that this left in the middle nobody can say any more.
    for (auto& [id, group] : groups_) {
      group->polling_board = false;
      fail(*group, no_memory(kOperationNeeds), true);
    }
    return true;
  }
}

bool Context::move_all() {
  bool moved = false;
  if (job_->news.load(std::memory_order_acquire)) moved = handle_events();
  if (job_->arena()) open_asked();
  // One system call for all sockets, once there are more of them than that would save.
  constexpr int kAskEach = 2;
  const bool ask_all = sockets_ > kAskEach;
  if (ask_all) hear_sockets();
  for (std::size_t i = 0; i < open_routes_.size(); ++i) {
    Route& way = *open_routes_[i];
    const bool silent = ask_all && !way.heard && way.endpoint()->descriptor() >= 0 && way.endpoint()->remaining() == 0;
    moved |= !silent && way.pull();
  }
  // After all have been heard: what one brings may be due at any of them.
  for (std::size_t i = 0; i < open_routes_.size(); ++i) moved |= open_routes_[i]->push();
  for (std::size_t i = 0; i < on_boards_.size();) {
    Group* group = on_boards_[i];
    const std::uint64_t before = group->movement;
    poll_board(*group);
    moved |= group->movement != before;
    if (i < on_boards_.size() && on_boards_[i] == group) ++i;
  }
  for (std::size_t i = 0; i < behind_.size();) {
    Group& group = *behind_[i];
    look_behind(group);
    if (group.board.is_behind() && !group.error) {
      ++i;
    } else {
      behind_.erase(behind_.begin() + std::ptrdiff_t(i));
    }
  }
  for (std::size_t i = 0; i < working_.size();) {
    Operation* operation = working_[i];
    moved |= work(*operation);
    if (i < working_.size() && working_[i] == operation) ++i;
  }
  return moved;
}

// Lanes in shared memory are opened by the sender alone; its bit in the inbox says so.
void Context::open_asked() {
  const memory::Arena& arena = job_->arena();
  memory::Inbox& inbox = arena.inbox(arena.index());
  for (int word = 0; word * 64 < arena.ranks(); ++word) {
    if (inbox.first_use[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t bits = inbox.first_use[word].exchange(0, std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      const int local = word * 64 + __builtin_ctzll(bits);
      const control::Member& self = job_->members()[std::size_t(rank_)];
      for (const control::Member& member : job_->members()) {
        if (member.local_index == local && member.machine == self.machine && member.rank != rank_) {
          Route& way = route(member.rank);
          if (way.state() == Route::State::closed && !carrier_to(member.rank)->needs_connection()) {
            open_route(way, UniqueFd());
          }
        }
      }
    }
  }
}

bool Context::handle_events() {
  bool any = false;
  for (control::Event& event : job_->take_events()) {
    any = true;
    switch (event.kind) {
      case control::Event::Kind::lane:
        if (const auto lost = lost_.find(event.peer); lost != lost_.end() && lost->second.found_here) {
          lost_.erase(lost);
          gone_[std::size_t(event.peer)] = Gone::no;
        }
        open_route(route(event.peer), std::move(event.fd));
        break;
      case control::Event::Kind::lost: hear_of_loss(event); break;
      case control::Event::Kind::left:
        if (gone_[std::size_t(event.peer)] == Gone::no) {
          gone_[std::size_t(event.peer)] = Gone::left;
          left_ns_[std::size_t(event.peer)] = now_ns();
        }
        any_gone_ = true;
        break;
      case control::Event::Kind::region:
        regions_.answered(event.region, std::move(event.fd));
        for (Operation* waiting : std::vector<Operation*>(mapping_)) {
          if (waiting->state != Operation::State::entering) continue;
          with_memory(*waiting->group, [&] { map_announced(*waiting); });
        }
        break;
      case control::Event::Kind::failed:
        if (Group* group = find_group(event.communicator)) {
          if (event.error.code() == ANELLO_ERR_PEER_LOST) {
            if (!group->told_end) group->told_end = event.error;
            any_gone_ = true;
          } else {
            fail(*group, event.error, false);
          }
        } else if (!is_past(event.communicator) && failed_early_.size() < 1024) {
          failed_early_.emplace(event.communicator, event.error);
        }
        break;
    }
  }
  return any;
}

// ---- Waiting ----

namespace {

bool any_done(std::span<Operation* const> operations) {
  return std::any_of(operations.begin(), operations.end(), [](const Operation* each) {
    return each != nullptr && each->done.load(std::memory_order_relaxed);
  });
}

}  // namespace

void Context::wait(Operation& operation) {
  if (!operation.done.load(std::memory_order_acquire)) {
    Lock held = lock();
    Operation* const watched = &operation;
    wait_until(held, [&] { return operation.done.load(std::memory_order_relaxed); }, {&watched, 1});
  }
  if (operation.error) job_->finish_telling();
}

void Context::wait_any(Operation* const* operations, std::size_t count) {
  const Watched watched(operations, count);
  if (std::all_of(watched.begin(), watched.end(), [](const Operation* each) { return each == nullptr; })) return;
  {
    Lock held = lock();
    wait_until(
        held, [&] { return any_done(watched); }, watched);
  }
  for (const Operation* each : watched) {
    if (each != nullptr && each->done.load(std::memory_order_acquire) && each->error) return job_->finish_telling();
  }
}

bool Context::test(Operation& operation) {
  if (!operation.done.load(std::memory_order_acquire) && !test_once(operation)) return false;
  if (operation.error) job_->finish_telling();
  return true;
}

bool Context::test_once(Operation& operation) {
  const Lock held = lock();
  if (!driving_) {
    const kernels::DefaultFloats floats;
    progress();
    // A rank that only ever tests looks for news here alone.
    constexpr unsigned kTestsPerTick = 16;
    if (any_gone_ || !suspects_.empty() || ++tests_ % kTestsPerTick == 0) tick({});
    const bool was_busy = unfinished_ > 0;
    if (!is_busy()) {
      stay_awake();
    } else if (watched_ && says_it_sleeps_) {
      watch_in_background();
    } else if (!was_busy) {
      look_soon();
    }
  }
  return operation.done.load(std::memory_order_relaxed);
}

bool Context::tend(Operation& operation) {
  if (test(operation)) return true;
  const Lock held = lock();
  Operation* const watched = &operation;
  tick({&watched, 1});  // also beside a thread that drives: it looks at the deadlines of what it waits for itself
  return operation.done.load(std::memory_order_relaxed);
}

template <class Done>
void Context::wait_until(Lock& held, Done&& done, Watched watched) {
  while (!done()) {
    if (driving_) {
      ++waiters_;
      changed_.wait_for(held, std::chrono::milliseconds(100));
      --waiters_;
      if (!done()) tick(watched);
      continue;
    }
    struct Baton {
      Context& context;
      explicit Baton(Context& driven) : context(driven) { context.driving_ = true; }
      ~Baton() {
        context.driving_ = false;
        if (context.waiters_ > 0) context.changed_.notify_all();
      }
    } const baton(*this);
    drive(held, done, watched);
  }
  if (!driving_ && waiters_ == 0 && is_busy()) look_soon();
}

template <class Done>
void Context::drive(Lock& held, Done&& done, Watched watched) {
  const kernels::DefaultFloats floats;
  stay_awake();
  gone_look_due_ = true;
  trickle_.forget_wait();
  Waiting waiting(budget_, std::exchange(spun_, false));
  int yields = 0;
  int naps = 0;
  int turns = -1;  // with lines of ranks on other processors, before this one is given away; -1: not begun
  unsigned looks = 0;
  while (true) {
    // Where things move all the time, for others or in other communicators, a rank comes to no sleep at which it would
    // look.
    if (++looks % 4096 == 0) tick(watched);
    const bool moved = progress();
    if (moved && turns > 0) board_patience_.rewarded();
    if (moved && trickle_.is_waiting()) trickle_.came(now_ns(), taken_);
    if (done()) return;
    if (contenders_.load(std::memory_order_relaxed) > 0) step_aside(held);
    if (moved) {
      waiting.progressed();
      naps = 0;
      turns = -1;
      continue;
    }
    if (turns > 0 && waits_elsewhere()) {
      --turns;
      pause_processor();
      continue;
    }
    Waiting::Next next = waiting.next(1 + kSocketTurns * sockets_);
    if (const std::size_t rest = rest_of_frames(); rest > 0) {
      if (!trickle_.is_waiting()) trickle_.waits(now_ns(), taken_);
      if (trickle_.outlasts_sleep(rest)) next = Waiting::Next::sleep;
    } else if (trickle_.is_waiting()) {
      // The last look of a doze took the rest. What is waited for now is not a frame's.
      trickle_.came(now_ns(), taken_);
      trickle_.forget_wait();
    }
    if (next == Waiting::Next::yield && turns < 0 && waits_elsewhere()) {
      turns = board_patience_.turns(on_boards_.front()->board.is_first_of_two());
      if (turns > 0) next = Waiting::Next::spin;
    }
    if (next == Waiting::Next::yield) {
      const bool dear = yield_cost_.is_dear();
      sleeper_.sleeps_often(job_->arena(), dear && budget_.spins == 0);
      if (dear) next = Waiting::Next::sleep;
    }
    switch (next) {
      case Waiting::Next::spin: pause_processor(); break;
      case Waiting::Next::yield:
        yield(held);
        turns = -1;
        if (++yields % 256 == 0) tick(watched);
        break;
      case Waiting::Next::sleep: doze(held, watched, naps++); break;
    }
  }
}

bool Context::waits_elsewhere() const {
  return !on_boards_.empty() && std::all_of(on_boards_.begin(), on_boards_.end(),
                                            [](const Group* each) { return each->board.awaits_elsewhere(); });
}

// What is still to come of the frame that has the most of it, where this rank waits for sockets alone and has a
// processor to itself.
std::size_t Context::rest_of_frames() const {
  if (sockets_ == 0 || budget_.spins == 0 || std::size_t(sockets_) < open_routes_.size() || !on_boards_.empty() ||
      !working_.empty())
    return 0;
  std::size_t most = 0;
  for (const Route* way : open_routes_) {
    if (way->state() == Route::State::open) most = std::max(most, way->endpoint()->remaining());
  }
  return most;
}

// Adds the turn that ends here to those of the ranks on this processor. Returns their sum; null: nobody counts.
const std::atomic<std::uint64_t>* Context::end_turn(std::int64_t now) {
  const memory::Arena& arena = job_->arena();
  if (!arena) return nullptr;
  std::atomic<std::uint64_t>& turns =
      arena.header().turns[std::size_t(::sched_getcpu()) % memory::kTurnCounts].nanoseconds;
  turns.fetch_add(YieldCost::credit_of_turn(now - turn_began_ns_), std::memory_order_relaxed);
  return &turns;
}

void Context::yield(Lock& held) {
  held.unlock();
  const std::int64_t before_ns = now_ns();
  const std::atomic<std::uint64_t>* const turns = end_turn(before_ns);
  const std::uint64_t turns_before = turns != nullptr ? turns->load(std::memory_order_relaxed) : 0;
  sched_yield();
  const std::int64_t after_ns = turn_began_ns_ = now_ns();
  held.lock();
  if (!yield_cost_.is_long(after_ns - before_ns) || turns == nullptr) return;
  if (YieldCost::is_of_turns(after_ns - before_ns, turns->load(std::memory_order_relaxed) - turns_before)) return;
  const memory::Arena& arena = job_->arena();
  std::uint64_t handled = 0;
  for (int rank = 0; rank < arena.ranks(); ++rank) handled += arena.inbox(rank).handled.load(std::memory_order_relaxed);
  yield_cost_.long_one(after_ns, handled);
}

void Context::count_handled(std::size_t bytes) {
  if (const memory::Arena& arena = job_->arena()) {
    std::atomic<std::uint64_t>& handled = arena.inbox(arena.index()).handled;
    handled.store(handled.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
}

// Others want the lock to post or test: a mutex alone would let the driver take it again before they are awake.
void Context::step_aside(Lock& held) {
  held.unlock();
  for (int turn = 0; contenders_.load(std::memory_order_relaxed) > 0 && turn < 1000; ++turn) {
    if (turn < 50) {
      pause_processor();
    } else {
      sched_yield();
    }
  }
  held.lock();
}

// True: something is there already.
bool Context::announce_sleep() {
  for (Group* group : on_boards_) group->board.about_to_sleep();
  sleeper_.announce(job_->arena());
  says_it_sleeps_ = true;
  return arm_routes() || job_->news.load(std::memory_order_acquire);
}

// Each route says what would wake it, as it stands now: a lane that is full asks for room. True: something is there.
bool Context::arm_routes() {
  bool something = false;
  for (Route* way : open_routes_) {
    if (way->state() != Route::State::open) continue;
    something |= way->endpoint()->before_sleep();
    watch_descriptor(*way, false);
  }
  return something;
}

// Nobody needs to wake this rank: it looks itself.
void Context::get_up() {
  if (std::exchange(looks_soon_, false)) set_timer(0);
  if (std::exchange(says_it_sleeps_, false)) sleeper_.take_back(job_->arena());
}

// Sleeps until something comes, at most until it is time to look at deadlines; first not for long, and each time
// longer: who should have been woken and was not (store_barrier.h) loses as much again as it has waited.
void Context::doze(Lock& held, Watched watched, int naps) {
  const bool something = announce_sleep();
  if (!something && !progress() && !arm_routes() && !any_done(watched)) {
    asleep_ = true;
    const int most_ms = std::min(2 << std::min(naps, 10), any_gone_ ? 20 : 200);
    held.unlock();
    end_turn(now_ns());
    epoll_event events[16];
    ::epoll_wait(epoll_.get(), events, 16, most_ms);
    turn_began_ns_ = now_ns();
    held.lock();
    asleep_ = false;
  }
  stay_awake();
  silence(job_->wake_descriptor());
  tick(watched);
}

// ---- What is left to be said ----

// An answer, credit, or the rest of a frame may have found its lane full, and the operation that it is of is done. Its
// peer may wait for it while this rank is about something else, so the lane counts as an operation under way until it
// has left.
void Context::owe(Route& way) {
  if (way.owing || way.drained()) return;
  way.owing = true;
  ++unfinished_;
}

void Context::settle(Route& way) {
  if (std::exchange(way.owing, false)) --unfinished_;
}

// Whether somebody must look when something comes, though nobody waits.
bool Context::is_busy() {
  for (std::size_t i = 0; unfinished_ == 0 && i < open_routes_.size(); ++i) owe(*open_routes_[i]);
  return unfinished_ > 0;
}

// At the end of a call, of a lane that has work.
void Context::push_or_owe(Route& way) {
  way.push();
  if (unfinished_ > 0 || !way.has_work()) return;
  const kernels::DefaultFloats floats;
  look_soon();
}

// ---- In the background ----

// Operations are under way and nobody drives: the service thread shall look when something comes.
void Context::watch_in_background() {
  if (closing_) return;
  while (is_busy()) {
    // Peers know already. But who posts or tests moves things on, and may have filled a lane.
    if (watched_ && says_it_sleeps_) {
      arm_routes();
    } else {
      announce_sleep();
    }
    if (progress()) continue;
    if (arm_routes() && progress()) continue;  // that look may have been the one that found a lane full
    constexpr long kAgainNs = 50'000'000;      // whatever comes: see doze
    looks_soon_ = set_timer(kAgainNs);
    watch();
    return;
  }
}

// To ask the service thread costs its waking. What it was asked earlier holds until it has come.
void Context::watch() {
  if (!std::exchange(watched_, true)) job_->watch(epoll_.get(), [this] { run_in_background(); });
}

// The same in a moment. Most callers wait soon for what they have posted, and look themselves then: peers that woke the
// service thread meanwhile would have it in their way.
void Context::look_soon() {
  if (closing_) return;
  if (watched_ && says_it_sleeps_) return watch_in_background();
  if (looks_soon_) return;
  while (progress()) {
  }
  if (!is_busy()) return;
  constexpr long kMomentNs = 50'000;
  if (!set_timer(kMomentNs)) return watch_in_background();
  looks_soon_ = true;
  watch();
}

// Among what epoll_ waits for. 0: none is set. False: there is none to be had.
bool Context::set_timer(long after_ns) {
  if (!timer_) {
    timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    epoll_event interest{};
    interest.events = EPOLLIN;
    if (!timer_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &interest) != 0) {
      timer_ = UniqueFd();
      return false;
    }
  }
  itimerspec when{};
  when.it_value.tv_nsec = after_ns;
  return ::timerfd_settime(timer_.get(), 0, &when, nullptr) == 0;
}

void Context::leave_to_background() {
  const Lock held = lock();
  if (driving_ || !is_busy()) return;
  const kernels::DefaultFloats floats;
  look_soon();
}

void Context::run_in_background() {
  const Lock held = lock();
  watched_ = false;
  if (driving_ || closing_) return;  // who drives has seen it, or will
  const kernels::DefaultFloats floats;
  stay_awake();  // who woke this rank has taken its asking back; and a timer that is set anew is not readable any more
  silence(job_->wake_descriptor());
  while (progress()) {
  }
  if (is_busy()) {
    watch_in_background();
  } else if (sockets_ == 0) {
    watch();  // asked from here it costs nothing, and saves the next who posts the waking
  }
}

}  // namespace anello::executor
