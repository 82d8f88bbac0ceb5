#include "progress/descriptors.h"

#include "base/error.h"

#include <cerrno>
#include <ctime>

#include <sys/timerfd.h>

namespace anello::progress {
namespace {

bool control(int epoll, int what, int descriptor, std::uint32_t events, void* source) {
  epoll_event interest{};
  interest.events = events;
  interest.data.ptr = source;
  return ::epoll_ctl(epoll, what, descriptor, &interest) == 0;
}

}  // namespace

Descriptors::Descriptors(int wake_up) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw system_error("epoll_create1", errno);
  if (!control(epoll_.get(), EPOLL_CTL_ADD, wake_up, EPOLLIN, nullptr)) throw system_error("epoll_ctl", errno);
}

void Descriptors::add(int descriptor, std::uint32_t events, void* source) {
  control(epoll_.get(), EPOLL_CTL_ADD, descriptor, events, source);
}

void Descriptors::modify(int descriptor, std::uint32_t events, void* source) {
  control(epoll_.get(), EPOLL_CTL_MOD, descriptor, events, source);
}

void Descriptors::remove(int descriptor) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr); }

int Descriptors::wait(std::span<epoll_event> events, int milliseconds) {
  return ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
}

bool Descriptors::set_timer(long after_ns) {
  if (!timer_) {
    timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!timer_ || !control(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), EPOLLIN, nullptr)) {
      timer_ = UniqueFd();
      return false;
    }
  }
  itimerspec when{};
  when.it_value.tv_nsec = after_ns;
  return ::timerfd_settime(timer_.get(), 0, &when, nullptr) == 0;
}

}  // namespace anello::progress
