#pragma once
// One owner of one file descriptor. A UniqueFd owns every descriptor of Anello from its creation and enters it in the
// table that the fork handler closes in a child. Otherwise a data-loader worker would keep a dead rank's connections
// open, and no peer would notice the death.
#include <utility>

namespace anello {

void remember_descriptor(int fd);  // unique_fd.cpp: lock-free table, read by the fork handler
void forget_descriptor(int fd);
// Installs the fork handler once; true in a child forked after that.
void watch_forks();
bool in_forked_child();

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {
    if (fd_ >= 0) remember_descriptor(fd_);
  }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  // Releases the descriptor to the caller; the fork handler no longer knows it.
  int release() {
    if (fd_ >= 0) forget_descriptor(fd_);
    return std::exchange(fd_, -1);
  }

 private:
  int fd_ = -1;
};

}  // namespace anello
