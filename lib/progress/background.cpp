// Driver: the case in which operations are in flight and no thread waits.
#include "base/bell.h"
#include "base/clock.h"
#include "base/processor.h"
#include "kernels/default_floats.h"
#include "progress/driver.h"

#include <utility>

namespace anello::progress {

void Driver::watch_in_background() {
  if (closing_) return;
  while (driven_.is_busy()) {
    // Peers already know. But a thread that posts or tests makes progress, and may have filled a lane.
    if (asked_service_ && says_it_sleeps_) {
      driven_.arm();
    } else {
      announce_sleep();
    }
    if (driven_.move()) continue;
    if (driven_.arm() && driven_.move()) continue;                  // that check may have found a lane full
    looks_soon_ = descriptors_.set_timer(driven_.poll_again_ns());  // whatever happens: see sleep
    ask_service();
    return;
  }
}

// A request to the service thread wakes it. An earlier request is valid until it has been served.
void Driver::ask_service() {
  if (!std::exchange(asked_service_, true)) job_.watch(descriptors_.get(), [this] { run_in_background(); });
}

// Streams that are about to hand over, or wait for a call to end, wait for this thread alone. True: something moved.
bool Driver::poll_for_a_moment() {
  constexpr long kMomentNs = 50'000;
  constexpr std::int64_t kMostNs = 200'000;  // others of this process need the thread, too
  if (driven_.poll_again_ns() > kMomentNs || spins() == 0) return false;
  const std::int64_t until = now_ns() + kMostNs;
  while (!is_lock_wanted() && now_ns() < until) {
    if (driven_.move()) return true;
    pause_processor();
  }
  return false;
}

// A caller that will wait soon polls itself. If peers woke the service thread meanwhile, it would be in their way.
void Driver::watch_soon() {
  if (closing_) return;
  if (asked_service_ && says_it_sleeps_) return watch_in_background();
  if (looks_soon_) return;
  while (driven_.move()) {
  }
  if (!driven_.is_busy()) return;
  constexpr long kMomentNs = 50'000;
  if (!descriptors_.set_timer(kMomentNs)) return watch_in_background();
  looks_soon_ = true;
  ask_service();
}

void Driver::looked_once(bool was_busy) {
  if (!driven_.is_busy()) {
    stop_sleeping();
  } else if (asked_service_ && says_it_sleeps_) {
    watch_in_background();
  } else if (!was_busy) {
    watch_soon();
  }
}

void Driver::leave() {
  if (driving_ || !driven_.is_busy()) return;
  const kernels::DefaultFloats floats;
  watch_soon();
}

void Driver::run_in_background() {
  const Lock held = lock();
  asked_service_ = false;
  if (driving_ || closing_) return;  // the driving thread has seen it, or will
  const kernels::DefaultFloats floats;
  stop_sleeping();  // the peer that woke this rank has withdrawn its request, and a timer that is set again is not
                    // readable
  silence(job_.wake_descriptor());
  while (driven_.move() || poll_for_a_moment()) {
  }
  if (driven_.is_busy()) {
    watch_in_background();
  } else if (driven_.sockets() == 0) {
    ask_service();  // the request costs nothing here, and saves the next poster a wake-up
  }
}

void Driver::close() {
  {
    const Lock held = lock();
    closing_ = true;
  }
  job_.unwatch();
}

}  // namespace anello::progress
