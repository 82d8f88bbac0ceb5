// Driver: the case in which operations are in flight and no thread waits.
#include "base/bell.h"
#include "kernels/default_floats.h"
#include "progress/driver.h"

#include <algorithm>
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
    if (driven_.arm() && driven_.move()) continue;  // that check may have found a lane full
    constexpr long kAgainMs = 50;                   // for any event: see sleep
    looks_soon_ = descriptors_.set_timer(std::min(kAgainMs, long(driven_.longest_sleep_ms())) * 1'000'000);
    ask_service();
    return;
  }
}

// A request to the service thread wakes it. An earlier request is valid until it has been served.
void Driver::ask_service() {
  if (!std::exchange(asked_service_, true)) job_.watch(descriptors_.get(), [this] { run_in_background(); });
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
  while (driven_.move()) {
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
