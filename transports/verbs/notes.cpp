#include "transports/verbs/notes.h"

#include "base/uncancelled.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace anello::transport {
namespace {

bool send_all(int fd, const void* from, std::size_t bytes) {
  const Uncancelled whole;
  return ::send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(bytes);
}

}  // namespace

bool RailNote::is_right(std::size_t ports) const {
  return port < ports && (kind == ready || kind == down || (kind == offer && offered.is_right()));
}

bool NoteExchange::say(const VerbsGreeting& mine) { return send_all(fd_, &mine, sizeof mine); }
bool NoteExchange::say(const RailNote& note) { return send_all(fd_, &note, sizeof note); }

NoteExchange::News NoteExchange::look() {
  const Uncancelled whole;
  std::byte* const into = has_greeted_ ? reinterpret_cast<std::byte*>(&note_) : reinterpret_cast<std::byte*>(&theirs_);
  const std::size_t all = has_greeted_ ? sizeof note_ : sizeof theirs_;
  const ssize_t got = ::recv(fd_, into + came_, all - came_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return News::none;
  if (got <= 0) return News::gone;
  came_ += std::size_t(got);
  if (came_ < all) return News::none;
  came_ = 0;
  if (std::exchange(has_greeted_, true)) return note_.is_right(theirs_.ports) ? News::note : News::corrupt;
  return theirs_.is_right() ? News::greeting : News::corrupt;
}

}  // namespace anello::transport
