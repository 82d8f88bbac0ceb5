#include "transports/striped/readiness.h"

#include "base/error.h"

#include <cerrno>

#include <sys/epoll.h>

namespace anello::transport {

Readiness::Readiness(std::size_t rails) : epoll_(::epoll_create1(EPOLL_CLOEXEC)), rails_(rails) {
  if (!epoll_) throw system_error("epoll_create1", errno);
}

void Readiness::add(std::size_t rail, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) throw system_error("epoll_ctl", errno);
  rails_[rail] = {descriptor, event.events};
}

void Readiness::ask(std::size_t rail, bool arrivals, bool room) {
  Rail& known = rails_[rail];
  epoll_event event{};
  event.events = (arrivals ? EPOLLIN : 0u) | (room ? EPOLLOUT : 0u);
  if (event.events == known.events) return;
  deaf_ -= (known.events & EPOLLIN) == 0 ? 1 : 0;
  deaf_ += arrivals ? 0 : 1;
  known.events = event.events;
  // Cannot fail: the descriptor is in there.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, known.descriptor, &event);
}

}  // namespace anello::transport
