#pragma once
// News for one rank: written by the service thread, taken by whoever drives the rank's context. Any thread.
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
  // The flag to set with news; nullptr once its owner goes.
  void announce_to(std::atomic<bool>* flag);
  void put(Event event);
  // All or none of them are taken at a time.
  void put(std::vector<Event> events);
  std::vector<Event> take();

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
  std::atomic<bool>* flag_ = nullptr;
  UniqueFd wake_;
};

}  // namespace anello::control
