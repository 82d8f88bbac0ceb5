#pragma once
// What ranks print, passed on in whole lines: a Line source per rank and stream, a Sink per stream of the launcher.
// Nothing here blocks: a reader that does not read us (less, a stopped terminal) must not keep the launcher from
// seeing that a rank has died.
#include "anellorun/descriptor.h"

#include <cstddef>
#include <string>

namespace anellorun {

// The launcher's standard output or error.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void put(const std::string& bytes) {
    if (!gone_) waiting_ += bytes;
  }
  bool pending() const { return !waiting_.empty(); }
  // Sources stop being read while this holds, and their ranks wait in write(2) as they would on a slow terminal.
  bool full() const { return waiting_.size() >= kEnough; }
  // The reader has closed its end: ranks are told by closing theirs.
  bool gone() const { return gone_; }
  // Writes some of what waits. Requires: poll says that fd() is writable.
  void write_some();

 private:
  static constexpr std::size_t kEnough = 1 << 20;

  int fd_;
  bool gone_ = false;
  std::string waiting_;
};

// One stream of one rank.
class Source {
 public:
  // tag: "" or what each line begins with.
  Source(Descriptor fd, std::string tag, Sink& sink) : fd_(std::move(fd)), tag_(std::move(tag)), sink_(&sink) {}

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  const Sink& sink() const { return *sink_; }
  // Reads what is there and hands on the whole lines of it; false when nothing was there.
  // Requires: fd() does not block.
  bool read_some();
  // Hands on what is left, ended or not, and closes.
  void close();

 private:
  static constexpr std::size_t kLongestLine = 64 * 1024;  // a longer one is handed on in pieces

  void hand_on(std::size_t bytes);

  Descriptor fd_;
  std::string tag_;
  Sink* sink_;
  std::string partial_;
  bool inside_line_ = false;  // a piece of this line is handed on already
};

}  // namespace anellorun
