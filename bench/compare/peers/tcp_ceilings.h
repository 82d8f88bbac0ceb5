// Ceilings of TCP over loopback, between pairs of ranks that spin, or yield, on nonblocking sockets. --setting
// WAY/CONTROL[:CHUNK_KIB[:BUFFER_KIB]], the congestion control, "system" for the system's; without a size, buffers grow
// by themselves. See README.md, "Ceilings".
#pragma once

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "ceiling.h"

namespace compare {

class TcpCeiling : public Ceiling {
 public:
  // Each rank's peer is this many ranks above or below it.
  TcpCeiling(const Options& options, int apart)
      : Ceiling(options), first_(rank_ / apart % 2 == 0 ? rank_ : rank_ - apart) {
    if (size_ % (2 * apart) != 0) throw std::runtime_error("this ceiling is of pairs of ranks");
    const size_t slash = options.setting.find('/');
    const size_t colon = options.setting.find(':');
    control_ = options.setting.substr(slash + 1, std::min(colon, options.setting.size()) - slash - 1);
    const size_t second = options.setting.rfind(':');
    if (colon != std::string::npos) chunk_ = std::stoul(options.setting.substr(colon + 1)) * 1024;
    if (second != colon) buffer_ = std::stoi(options.setting.substr(second + 1)) * 1024;
    connect_both(options);
  }
  ~TcpCeiling() { close(fd_); }
  TcpCeiling(const TcpCeiling&) = delete;
  TcpCeiling& operator=(const TcpCeiling&) = delete;

 protected:
  // Sends as many bytes as possible now, at most a chunk.
  size_t send_some(const char* data, size_t bytes) {
    return progress(::send(fd_, data, std::min(bytes, chunk_), MSG_DONTWAIT | MSG_NOSIGNAL), "send");
  }
  size_t receive_some(char* data, size_t bytes) {
    return progress(::recv(fd_, data, std::min(bytes, chunk_), MSG_DONTWAIT), "recv");
  }

  // If ranks share processors, the peer may be waiting for this rank.
  void wait() const {
    if (size_ > 2) sched_yield();
  }

  size_t chunk_ = size_t{1} << 20;

 private:
  static size_t progress(ssize_t moved, const char* what) {
    if (moved > 0) return static_cast<size_t>(moved);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    throw std::runtime_error(std::string(what) + ": " + (moved == 0 ? "the peer has gone" : std::strerror(errno)));
  }

  static void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }

  void connect_both(const Options& options) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd_ >= 0, "socket");
    configure(fd_);
    const std::string path = options.directory + "/port-" + std::to_string(first_);
    if (rank_ == first_) {
      require(bind(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(fd_, 1) == 0 &&
                  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0,
              "listen");
      std::ofstream(path + ".new") << ntohs(address.sin_port) << '\n';
      std::rename((path + ".new").c_str(), path.c_str());
      const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      require(connection >= 0, "accept");
      close(fd_);
      fd_ = connection;
      configure(fd_);
    } else {
      int port = 0;
      for (const double end = now_seconds() + options.limit; port == 0; usleep(1000)) {
        if (now_seconds() > end) throw std::runtime_error("the other rank gives no port");
        std::ifstream(path) >> port;
      }
      address.sin_port = htons(static_cast<uint16_t>(port));
      require(connect(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0, "connect");
    }
  }

  void configure(int fd) const {
    const int one = 1;
    require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
    if (buffer_ > 0)
      require(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_, sizeof buffer_) == 0 &&
                  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_, sizeof buffer_) == 0,
              "SO_SNDBUF");
    if (control_ == "system") return;
    require(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control_.c_str(), static_cast<socklen_t>(control_.size())) == 0,
            "TCP_CONGESTION");
  }

  const int first_;  // of the pair's ranks
  std::string control_;
  int buffer_ = 0;
  int fd_ = -1;
};

// Ranks take turns in sending the buffer: a call is one way.
class OneWay final : public TcpCeiling {
 public:
  explicit OneWay(const Options& options) : TcpCeiling(options, 1) { only_two(); }
  void allreduce() {
    ++call_;
    char* const data = reinterpret_cast<char*>(data_);
    const size_t bytes = count_ * sizeof(float);
    const bool sends = static_cast<int>(call_ % 2) == rank_;
    for (size_t done = 0; done < bytes;)
      done += sends ? send_some(data + done, bytes - done) : receive_some(data + done, bytes - done);
  }
  void check() const {}  // Waits for bytes that have not arrived.

 private:
  unsigned call_ = 0;
};

// Both ranks of each pair send at once, and all pairs together send as much as an all-reduce must: 2 (P - 1) S bytes.
// Received data goes to a block that stays in cache, which is less work than any library can do.
class Duplex : public TcpCeiling {
 public:
  explicit Duplex(const Options& options, int apart = 1) : TcpCeiling(options, apart), block_(chunk_) {}
  void allreduce() {
    const char* const data = reinterpret_cast<const char*>(data_);
    const size_t bytes = count_ * sizeof(float);
    const size_t all = 2 * bytes / static_cast<size_t>(size_) * static_cast<size_t>(size_ - 1);
    for (size_t sent = 0, received = 0; sent < all || received < all;) {
      const size_t before = sent + received;
      if (sent < all) sent += send_some(data + sent % bytes, std::min(all - sent, bytes - sent % bytes));
      if (received < all) received += receive_some(block_.data(), all - received);
      if (sent + received == before) wait();
    }
  }
  void check() const {}

 private:
  std::vector<char> block_;
};

// The same between ranks that share a processor, if any do.
class Within final : public Duplex {
 public:
  explicit Within(const Options& options)
      : Duplex(options, number_of("WORLD_SIZE") % (2 * options.processors) == 0 ? options.processors : 1) {}
};

}  // namespace compare
