#include "control/mailbox.h"

#include "base/bell.h"

#include <cerrno>
#include <iterator>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace anello::control {

Mailbox::Mailbox() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_) throw Error(ANELLO_ERR_RESOURCE, system_text("eventfd", errno));
}

void Mailbox::announce_to(std::atomic<bool>* flag) {
  const std::lock_guard lock(mutex_);
  flag_ = flag;
  if (flag_ != nullptr && !events_.empty()) flag_->store(true, std::memory_order_release);
}

void Mailbox::put(Event event) {
  std::vector<Event> one;
  one.push_back(std::move(event));
  put(std::move(one));
}

void Mailbox::put(std::vector<Event> events) {
  {
    const std::lock_guard lock(mutex_);
    std::move(events.begin(), events.end(), std::back_inserter(events_));
    if (flag_ != nullptr) flag_->store(true, std::memory_order_release);
  }
  ring(wake_.get());
}

std::vector<Event> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  if (flag_ != nullptr) flag_->store(false, std::memory_order_release);
  return std::exchange(events_, {});
}

}  // namespace anello::control
