#pragma once
// News for one rank: the service thread writes it, and the thread that drives the rank's context takes it. Any thread.
#include "base/unique_fd.h"
#include "control/job.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace anello::control {

class Mailbox {
 public:
  Mailbox();  // throws Error
  int wake_descriptor() const { return wake_.get(); }
  // The flag to set when there is news; nullptr once its owner is gone.
  void announce_to(std::atomic<bool>* flag);
  void put(Event event);
  // take returns either all of them or none.
  void put(std::vector<Event> events);
  std::vector<Event> take();

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
  std::atomic<bool>* flag_ = nullptr;
  UniqueFd wake_;
};

}  // namespace anello::control
