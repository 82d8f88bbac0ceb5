#include "perf/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 140ms;
constexpr std::size_t kPiece = 256 * 1024;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "TCP over 127.0.0.1");
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void require(bool done) {
  if (!done) throw std::system_error(errno, std::generic_category(), "TCP over 127.0.0.1");
}

bool read_all(int fd, char* into, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(fd, into, bytes, 0);
    if (got <= 0) return false;
    into += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const char* from, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = send(fd, from, bytes, MSG_NOSIGNAL);
    if (put <= 0) return false;
    from += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

// The far end: echoes 8-byte messages until one begins with 1, then counts bytes until the end and answers.
void far_end(int fd) {
  std::array<char, 8> message{};
  do {
    if (!read_all(fd, message.data(), message.size())) return;
    if (!write_all(fd, message.data(), message.size())) return;
  } while (message[0] == 0);
  std::vector<char> piece(kPiece);
  while (recv(fd, piece.data(), piece.size(), 0) > 0) {
  }
  write_all(fd, message.data(), message.size());
}

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

Loopback measure_loopback() {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  require(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0 && listen(listener.get(), 1) == 0);
  require(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  Socket near(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(connect(near.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  Socket far(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  for (int fd : {near.get(), far.get()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

  std::jthread answering([fd = far.get()] { far_end(fd); });
  Loopback result;
  std::array<char, 8> message{};
  const auto round_trip = [&] {
    return write_all(near.get(), message.data(), message.size()) &&
           read_all(near.get(), message.data(), message.size());
  };
  for (int i = 0; i < 20; ++i) require(round_trip());
  auto begin = Clock::now();
  int rounds = 0;
  for (; Clock::now() - begin < kPatience; ++rounds) require(round_trip());
  result.latency_us = microseconds(Clock::now() - begin) / rounds / 2;

  message[0] = 1;
  require(round_trip());
  const std::vector<char> piece(kPiece);
  begin = Clock::now();
  double sent = 0;
  for (; Clock::now() - begin < kPatience; sent += kPiece) require(write_all(near.get(), piece.data(), piece.size()));
  require(shutdown(near.get(), SHUT_WR) == 0 && read_all(near.get(), message.data(), message.size()));
  result.gbps = sent / microseconds(Clock::now() - begin) / 1e3;
  return result;
}

}  // namespace perf
