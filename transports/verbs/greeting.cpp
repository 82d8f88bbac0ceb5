#include "transports/verbs/greeting.h"

#include "base/uncancelled.h"

#include <cerrno>

#include <sys/socket.h>

namespace anello::transport {
namespace {

constexpr char kCanReceive = 'r';

bool send_all(int fd, const void* from, std::size_t bytes) {
  const Uncancelled whole;
  return ::send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(bytes);
}

}  // namespace

bool VerbsGreeting::is_right() const {
  return magic == kMagic && ring_slots == kSlots && lane.number > 0 && lane.is_right() && memory.is_right() &&
         PortAddress::from(port.bytes()).has_value();
}

bool GreetingExchange::say(const VerbsGreeting& mine) { return send_all(fd_, &mine, sizeof mine); }
bool GreetingExchange::say_can_receive() { return send_all(fd_, &kCanReceive, 1); }

GreetingExchange::News GreetingExchange::look() {
  const Uncancelled whole;
  char byte = 0;
  const bool greets = came_ < sizeof theirs_;
  std::byte* const into = greets ? reinterpret_cast<std::byte*>(&theirs_) + came_ : reinterpret_cast<std::byte*>(&byte);
  const ssize_t got = ::recv(fd_, into, greets ? sizeof theirs_ - came_ : 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return News::none;
  if (got <= 0) return News::gone;
  if (!greets) return byte == kCanReceive ? News::can_receive : News::corrupt;
  came_ += std::size_t(got);
  if (came_ < sizeof theirs_) return News::none;
  return theirs_.is_right() ? News::greeting : News::corrupt;
}

}  // namespace anello::transport
