#pragma once
// The launcher's own descriptors: each has one owner and is closed on exec. (The library's UniqueFd is private to the
// library.)
#include "anellorun/failure.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace anellorun {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor from;
  Descriptor to;
};

// Throws std::system_error.
inline Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

inline void make_nonblocking(const Descriptor& descriptor) {
  if (fcntl(descriptor.get(), F_SETFL, O_NONBLOCK) != 0) fail("fcntl");
}

}  // namespace anellorun
