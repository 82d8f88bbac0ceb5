#pragma once
// The descriptors that wake a sleeping rank: its wake-up descriptor, its sockets, and a timer. They are in one epoll
// instance, which the service thread can itself use as a descriptor.
#include "base/unique_fd.h"

#include <cstdint>
#include <span>

#include <sys/epoll.h>

namespace anello::progress {

class Descriptors {
 public:
  // Throws Error. wake_up: reported with no source.
  explicit Descriptors(int wake_up);

  int get() const { return epoll_.get(); }
  // The source comes back in epoll_event::data.ptr.
  void add(int descriptor, std::uint32_t events, void* source);
  void modify(int descriptor, std::uint32_t events, void* source);
  void remove(int descriptor);
  // The number of ready descriptors, and their events.
  int wait(std::span<epoll_event> events, int milliseconds);
  // Sets the timer, which fires once. 0: never. False: no timer is available.
  bool set_timer(long after_ns);

 private:
  UniqueFd epoll_;
  UniqueFd timer_;
};

}  // namespace anello::progress
