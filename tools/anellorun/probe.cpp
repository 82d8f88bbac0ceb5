#include "anellorun/probe.h"

#include "anellorun/frames.h"
#include "anellorun/offers.h"
#include "anellorun/socket_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace anellorun {
namespace {

constexpr std::chrono::milliseconds kMoreForOthers{500};

}  // namespace

Probe::Probe(std::string nonce, const std::vector<MeetingPlace>& places, Clock::duration time)
    : nonce_(std::move(nonce)),
      begin_(Clock::now()),
      end_(begin_ + time),
      attempts_(places.size()),
      reached_(places.size(), {ETIMEDOUT, static_cast<std::uint32_t>(time / std::chrono::microseconds(1)), 0}) {
  if (nonce_.size() != kNonceBytes) throw WrongFrame();
  for (std::size_t i = 0; i < places.size(); ++i) {
    SocketAddress to = socket_address(places[i].address, places[i].port);
    Descriptor& socket = attempts_[i].socket;
    socket = Descriptor(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // What a router or firewall says by ICMP ends the attempt at once, where the kernel would try again.
    const int on = 1;
    const bool six = to.storage.ss_family == AF_INET6;
    if (socket)
      setsockopt(socket.get(), six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVERR : IP_RECVERR, &on, sizeof on);
    if (!socket || (connect(socket.get(), to.get(), to.length) != 0 && errno != EINPROGRESS)) settle(i, errno);
  }
}

void Probe::watch(std::vector<pollfd>& into) {
  for (const Attempt& attempt : attempts_) into.push_back({attempt.socket.get(), POLLIN, 0});
}

void Probe::take(const pollfd* entries) {
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (entries[i].fd >= 0 && entries[i].revents != 0) read(i);
  }
}

void Probe::read(std::size_t i) {
  Attempt& attempt = attempts_[i];
  std::array<char, kGreetingBytes> bytes;
  const ssize_t count = recv(attempt.socket.get(), bytes.data(), bytes.size() - attempt.got.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return settle(i, count < 0 ? errno : ECONNRESET);
  attempt.got.append(bytes.data(), static_cast<std::size_t>(count));
  if (attempt.got.size() < kGreetingBytes) return;
  // Another program may have this address, here or on another host.
  if (attempt.got.compare(0, kNonceBytes, nonce_) != 0) return settle(i, EADDRINUSE);
  std::int64_t there = 0;
  memcpy(&there, attempt.got.data() + kNonceBytes, sizeof there);
  const auto now = Clock::now();
  // It was read between the attempt's begin and now.
  const std::int64_t half = (now - begin_) / std::chrono::microseconds(1) / 2;
  reached_[i].clock_ahead_us = static_cast<std::int64_t>(static_cast<std::uint64_t>(there) -
                                                         static_cast<std::uint64_t>(microseconds_since_1970()) +
                                                         static_cast<std::uint64_t>(half));
  settle(i, 0);
  // One is enough: the others get a moment more, so that all hosts find the same ones.
  end_ = std::min(end_, now + kMoreForOthers);
}

void Probe::settle(std::size_t i, int error) {
  reached_[i].error = error;
  reached_[i].microseconds = static_cast<std::uint32_t>((Clock::now() - begin_) / std::chrono::microseconds(1));
  attempts_[i].socket.close();
}

bool Probe::done(Clock::time_point now) const {
  return now >= end_ ||
         std::none_of(attempts_.begin(), attempts_.end(), [](const Attempt& each) { return bool(each.socket); });
}

}  // namespace anellorun
