#pragma once
// A connected socket for coroutines: it reads and writes exact numbers of bytes, with descriptors on Unix sockets. It
// lives on the service thread. close() ends every wait in it with an Error.
#include "base/error.h"
#include "base/unique_fd.h"
#include "control/secret.h"
#include "control/service.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace anello::control {

// The keys that authenticate frames over one connection, one for each direction (link.h).
struct LinkKeys {
  Key sends;
  Key takes;
};

class Stream {
 public:
  Stream(asio::io_context& io, UniqueFd socket);  // nonblocking, from here on
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Task<> read(std::span<std::byte> into);
  Task<> write(std::span<const std::byte> bytes);
  // Unix sockets only. At most kMaxPassed.
  Task<> write_descriptors(std::byte mark, std::span<const int> descriptors);
  Task<std::byte> read_descriptors(std::vector<UniqueFd>& descriptors);
  // For connect and accept.
  Task<> writable();
  Task<> readable();

  bool open() const { return static_cast<bool>(socket_); }
  int descriptor() const { return socket_.get(); }
  asio::io_context& io() { return io_; }
  void close();
  // Releases the socket to the caller. Requires: no coroutine waits in it.
  UniqueFd release();

  LinkKeys keys;  // from admission; before that, zero and no secret

 private:
  Task<> wait(asio::posix::stream_descriptor::wait_type what);
  asio::io_context& io_;
  UniqueFd socket_;
  asio::posix::stream_descriptor waiter_;  // knows the descriptor, never owns it
};

// Closes the stream unless it is destroyed before ms have passed.
class TimeLimit {
 public:
  TimeLimit(const std::shared_ptr<Stream>& stream, std::int64_t ms);

 private:
  asio::steady_timer timer_;
};

}  // namespace anello::control
