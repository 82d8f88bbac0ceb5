#include "control/door.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/port_range.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace anello::control {
namespace {

// An overloaded machine needs time for three small messages; a crowd of strangers gets less.
constexpr std::int64_t kHandshakeMs = 10'000;
constexpr std::int64_t kCrowdedHandshakeMs = 2'000;
constexpr std::size_t kCrowd = kMaxStrangers / 4;
// A guest of the own user keeps its place for this time before another one takes it. While ranks arrive that no room
// expects yet, they wait in the listener's queue and do not displace each other.
constexpr std::int64_t kUndisturbedMs = 200;
// The number of connections to accept before other work gets a turn.
constexpr int kBurst = 16;
// The delay after a failure; it doubles with each further failure.
constexpr std::int64_t kFirstPauseMs = 1, kLastPauseMs = 256;

bool hung_up(int socket) {
  pollfd look{socket, POLLRDHUP, 0};
  return ::poll(&look, 1, 0) > 0;
}

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

// At a free port that ANELLO_PORT_RANGE allows. Ranks of a host begin at different ones. Throws Error if none is free.
UniqueFd listen_within_range(const std::string& ip) {
  for (const std::uint16_t port : ports_in_turn(Config::get().port_range)) {
    bool in_use = false;
    UniqueFd socket = listen_at({"", ip, port}, in_use);
    if (socket || !in_use) return socket;
  }
  throw Error(ANELLO_ERR_ADDRESS,
              text("every port of ANELLO_PORT_RANGE=", Config::get().port_range, " is in use at ", ip));
}

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
  UniqueFd socket =
      !address.is_unix() && address.port == 0 ? listen_within_range(address.ip) : listen_at(address, in_use);
  if (in_use) return nullptr;
  auto listener = std::make_shared<Listener>(service_, std::move(socket));
  listeners_[listener->address().describe()] = listener;
  service_.spawn("listener", accept(shared_from_this(), listener->stream_));
  return listener;
}

void Door::add(const JobId& job, int to, Room room) {
  remove(job, to);
  expected_ += room.ranks;
  rooms_[{job, to}] = std::move(room);
}

void Door::remove(const JobId& job, int to) {
  const auto room = rooms_.find({job, to});
  if (room == rooms_.end()) return;
  expected_ -= room->second.ranks;
  const Room kept = std::move(room->second);  // closing it may close others, which comes back here
  rooms_.erase(room);
}

void Door::expect(const JobId& job, int to, std::size_t ranks) {
  const auto room = rooms_.find({job, to});
  if (room == rooms_.end()) return;
  expected_ += ranks - room->second.ranks;
  room->second.ranks = ranks;
}

Task<> Door::accept(std::shared_ptr<Door> door, std::shared_ptr<Stream> listening) {
  asio::io_context& io = door->service_.io();
  std::int64_t pause_ms = kFirstPauseMs;
  for (int in_a_row = 0; listening->open();) {
    std::string failure;
    UniqueFd socket(::accept4(listening->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      Source source = Source::of(socket.get());
      co_await make_place(door, source.own);
      if (!listening->open()) co_return;
      // It is mostly part of a flood: drop it before it costs more.
      if (!hung_up(socket.get())) failure = door->seat(std::move(socket), std::move(source));
    } else if (errno == EAGAIN) {
      co_await listening->readable();
      in_a_row = 0;
      continue;
    } else if (errno == EBADF || errno == EINVAL) {
      co_return;
    } else {
      if (out_of_descriptors(errno)) door->make_descriptor_free();
      failure = system_text("accept4", errno);
    }
    if (failure.empty()) {
      pause_ms = kFirstPauseMs;
      if (++in_a_row % kBurst == 0) co_await asio::post(io, asio::use_awaitable);
      continue;
    }
    // Mostly this concerns one connection or is temporary. But if a system call filter forbids the call, it always
    // fails.
    if (pause_ms == kLastPauseMs / 2) log::warn(-1, "no connection can be accepted: ", failure);
    co_await sleep_ms(io, pause_ms);
    pause_ms = std::min(pause_ms * 2, kLastPauseMs);
  }
}

std::string Door::seat(UniqueFd socket, Source source) {
  try {
    set_connection_options(socket.get());
    auto stream = std::make_shared<Stream>(service_.io(), std::move(socket));
    service_.spawn("handshake", receive(shared_from_this(), guests_.seat(std::move(stream), std::move(source))));
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Connections that have not proved themselves are closed first; a rank that was not admitted tries again.
void Door::make_descriptor_free() {
  const std::string why = "no descriptor is left";
  if (!guests_.turn_out(false, why)) guests_.turn_out(true, why);
}

Task<> Door::make_place(std::shared_ptr<Door> door, bool own) {
  while (own && door->guests_.count(own) >= door->places() &&
         now_ns() - door->guests_.oldest_own_since_ns() < kUndisturbedMs * 1'000'000) {
    co_await sleep_ms(door->service_.io(), 5);
  }
  if (door->guests_.count(own) < door->places()) co_return;
  const std::string why = "too many at a time";
  const auto guest = door->guests_.turn_out(own, why);
  if (!door->guests_.known(guest->source)) door->turned_away(guest->source, why);
}

Task<> Door::receive(std::shared_ptr<Door> door, std::shared_ptr<Guest> guest) {
  struct Leave {
    Guests& guests;
    const Guest& guest;
    ~Leave() { guests.leave(guest); }
  };
  const std::shared_ptr<Stream> stream = guest->stream;
  Visitor visitor;
  std::pair<JobId, int> to;
  {
    const Leave leave{door->guests_, *guest};
    const bool crowded = !guest->source.own && door->guests_.count(false) > kCrowd + door->expected_;
    const TimeLimit limit(stream, crowded ? kCrowdedHandshakeMs : kHandshakeMs);
    try {
      std::function<const Expected*(const Claim&)> find = [door](const Claim& claim) -> const Expected* {
        const auto room = door->rooms_.find({claim.job, claim.to});
        return room == door->rooms_.end() ? nullptr : &room->second.expected;
      };
      const Claim claim = co_await admit(stream, std::move(find));
      door->guests_.proved(guest->source);
      to = {claim.job, claim.to};
      visitor.purpose = claim.purpose;
      visitor.from = claim.from;
      visitor.version = claim.version;
      if (claim.version == kWireVersion) visitor.stream = stream;
    } catch (const Unknown&) {
      co_return;
    } catch (const Error& error) {
      // A guest that was closed here but not turned out had used up its time. A peer that hangs up by itself has not
      // been turned away: for example a rank whose program ended while it was connecting.
      const bool too_slow = !stream->open();
      if (too_slow && (!guest->why.empty() || door->guests_.known(guest->source))) co_return;
      if (too_slow || error.code() != ANELLO_ERR_PEER_LOST) {
        door->turned_away(guest->source, too_slow ? "too slow" : error.text());
      }
      co_return;
    }
  }
  const auto room = door->rooms_.find(to);
  if (room == door->rooms_.end()) co_return;
  const std::function<void(Visitor)> enter = room->second.enter;  // it may remove its own room
  enter(std::move(visitor));
}

void Door::turned_away(const Source& source, const std::string& why) {
  ++turned_away_;
  const std::int64_t now = now_ns();
  if (logged_at_ns_ != 0 && now - logged_at_ns_ < 1'000'000'000) return;
  log::warn(-1, "turned away ", turned_away_ - logged_,
            " connection(s) that did not prove that they belong to a job (last: from ", source.name, ", ", why, ")");
  logged_at_ns_ = now;
  logged_ = turned_away_;
}

}  // namespace anello::control
