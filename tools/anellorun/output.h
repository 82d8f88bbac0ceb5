#pragma once
// Forwards the output of ranks in whole lines: there is a Line source per rank and stream, and a Sink per stream of the
// launcher. Nothing here blocks: a reader that does not read (less, a stopped terminal) must not keep the launcher from
// noticing that a rank has died.
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
  // While this is true, sources are not read, and their ranks wait in write(2) as they would on a slow terminal.
  bool full() const { return waiting_.size() >= kEnough; }
  // The reader has closed its end: the launcher closes the ranks' pipes to tell them.
  bool gone() const { return gone_; }
  // Writes some of the waiting output. Requires: poll says that fd() is writable.
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
  // tag: "" or the beginning of each line.
  Source(Descriptor fd, std::string tag, Sink& sink) : fd_(std::move(fd)), tag_(std::move(tag)), sink_(&sink) {}

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  const Sink& sink() const { return *sink_; }
  // Reads the available output and forwards its whole lines; false if there was none.
  // Requires: fd() does not block.
  bool read_some();
  // Forwards the rest, even an incomplete line, and closes.
  void close();

 private:
  static constexpr std::size_t kLongestLine = 64 * 1024;  // a longer line is forwarded in pieces

  void hand_on(std::size_t bytes);

  Descriptor fd_;
  std::string tag_;
  Sink* sink_;
  std::string partial_;
  bool inside_line_ = false;  // a piece of this line has already been forwarded
};

}  // namespace anellorun
