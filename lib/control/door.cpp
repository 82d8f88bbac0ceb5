#include "control/door.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <cerrno>

#include <sys/socket.h>
#include <unistd.h>

namespace anello::control {
namespace {

// An overloaded machine needs time for three small messages; a crowd of strangers is given less.
constexpr std::int64_t kHandshakeMs = 10'000;
constexpr std::int64_t kCrowdedHandshakeMs = 2'000;
constexpr std::size_t kCrowd = kMaxStrangers / 4;

}  // namespace

Listener::Listener(Service& service, UniqueFd socket)
    : address_(local_address(socket.get())), stream_(std::make_shared<Stream>(service.io(), std::move(socket))) {}

Listener::~Listener() { stream_->close(); }

std::shared_ptr<Listener> Door::unix_listener() {
  if (auto listener = own_.lock()) return listener;
  std::shared_ptr<Listener> listener = listen({text("anello-", ::getpid(), "-", std::hex, random_number()), "", 0});
  if (!listener) throw Error(ANELLO_ERR_ADDRESS, "a random abstract socket name is in use");
  own_ = listener;
  return listener;
}

std::shared_ptr<Listener> Door::listen(const Address& address) {
  std::erase_if(listeners_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = listeners_.find(address.describe()); known != listeners_.end()) return known->second.lock();
  bool in_use = false;
  UniqueFd socket = listen_at(address, in_use);
  if (in_use) return nullptr;
  auto listener = std::make_shared<Listener>(service_, std::move(socket));
  listeners_[listener->address().describe()] = listener;
  service_.spawn("listener", accept(service_, this, listener->stream_));
  return listener;
}

Task<> Door::accept(Service& service, Door* door, std::shared_ptr<Stream> listening) {
  while (listening->open()) {
    UniqueFd socket(::accept4(listening->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN) {
        co_await listening->readable();
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // Out of descriptors: strangers give theirs back first; who was not let in tries again.
        if (!door->guests_.empty()) door->guests_.front().stream->close();
        co_await sleep_ms(service.io(), 20);
      } else if (errno == EBADF || errno == EINVAL) {
        co_return;
      }
      continue;  // the rest (ECONNABORTED, EINTR, network errors) is about one connection
    }
    set_connection_options(socket.get());
    if (door->guests_.size() >= kMaxStrangers) {
      door->turned_away("too many at a time");
      // Its coroutine takes itself off the list when it runs; until then it must not be picked again.
      const auto oldest = door->guests_.begin();
      oldest->stream->close();
      door->guests_.splice(door->guests_.end(), door->guests_, oldest);
      // Let the closed ones leave before more are accepted, else the list would grow past its bound.
      co_await asio::post(service.io(), asio::use_awaitable);
    }
    std::shared_ptr<Stream> stream = std::make_shared<Stream>(service.io(), std::move(socket));
    const auto guest = door->guests_.insert(door->guests_.end(), Guest{stream});
    service.spawn("handshake", receive(service, door, guest));
  }
}

Task<> Door::receive(Service& service, Door* door, std::list<Guest>::iterator guest) {
  const std::shared_ptr<Stream> stream = guest->stream;
  struct Leave {
    Door* door;
    std::list<Guest>::iterator guest;
    ~Leave() { door->guests_.erase(guest); }
  };
  Visitor visitor;
  std::pair<JobId, int> to;
  {
    const Leave leave{door, guest};
    const TimeLimit limit(stream, door->guests_.size() > kCrowd ? kCrowdedHandshakeMs : kHandshakeMs);
    try {
      std::function<const Expected*(const Claim&)> find = [door](const Claim& claim) -> const Expected* {
        const auto room = door->rooms_.find({claim.job, claim.to});
        return room == door->rooms_.end() ? nullptr : &room->second.expected;
      };
      const Claim claim = co_await admit(stream, std::move(find));
      to = {claim.job, claim.to};
      visitor.purpose = claim.purpose;
      visitor.from = claim.from;
      visitor.version = claim.version;
      if (claim.version == kWireVersion) visitor.stream = stream;
    } catch (const Unknown&) {
      co_return;
    } catch (const Error& error) {
      // Closed here: its time was over. Who hangs up on his own has not been turned away: a rank, say, whose program
      // ended while it was connecting.
      const bool too_slow = !stream->open();
      if (too_slow || error.code() != ANELLO_ERR_PEER_LOST) door->turned_away(too_slow ? "too slow" : error.text());
      co_return;
    }
  }
  const auto room = door->rooms_.find(to);
  if (room == door->rooms_.end()) co_return;
  const std::function<void(Visitor)> enter = room->second.enter;  // it may remove its own room
  enter(std::move(visitor));
}

void Door::close() {
  for (const auto& [address, weak] : listeners_) {
    if (const auto listener = weak.lock()) listener->stream_->close();
  }
  for (const Guest& guest : guests_) guest.stream->close();
}

void Door::turned_away(const std::string& why) {
  ++turned_away_;
  const std::int64_t now = now_ns();
  if (logged_at_ns_ != 0 && now - logged_at_ns_ < 1'000'000'000) return;
  log::warn(-1, "turned away ", turned_away_ - logged_, " connection(s) that did not prove to belong to a job (last: ",
            why, ")");
  logged_at_ns_ = now;
  logged_ = turned_away_;
}

}  // namespace anello::control
