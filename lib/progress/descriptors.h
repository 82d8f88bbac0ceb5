#pragma once
// What wakes a rank that sleeps: its wake-up descriptor, its sockets, and a timer. One epoll instance, which can be
// handed to the service thread as a descriptor itself.
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
  // How many are ready, and which.
  int wait(std::span<epoll_event> events, int milliseconds);
  // One timer, that goes off once. 0: not at all. False: there is none to be had.
  bool set_timer(long after_ns);

 private:
  UniqueFd epoll_;
  UniqueFd timer_;
};

}  // namespace anello::progress
