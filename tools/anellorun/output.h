#pragma once
// Forwards the output of ranks in whole lines: there are Lines for each rank and stream, and a Sink for each stream of
// the launcher. Nothing here blocks: a reader that does not read (less, a stopped terminal) must not keep the launcher
// from noticing that a rank has died.
#include "anellorun/rank_log.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace anellorun {

// The launcher's standard output or error.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void put(const std::string& bytes) {
    put_ += bytes.size();
    if (!gone_) waiting_ += bytes;
  }
  bool pending() const { return !waiting_.empty(); }
  bool full() const { return waiting_.size() >= kEnough; }
  // The reader has closed its end.
  bool gone() const { return gone_; }
  // How much has been put, in bytes.
  std::size_t put_so_far() const { return put_; }
  // Writes some of the waiting output. Requires: poll says that fd() is writable.
  void write_some();

 private:
  static constexpr std::size_t kEnough = 1 << 20;

  int fd_;
  bool gone_ = false;
  std::size_t put_ = 0;
  std::string waiting_;
};

// One stream of one rank.
class Lines {
 public:
  // tag: "" or the beginning of each line on the screen; sink: NULL if the lines go to the log only.
  Lines(std::string tag, Sink* sink, RankLog* log) : tag_(std::move(tag)), sink_(sink), log_(log) {}

  // Forwards the lines that are whole now.
  void put(std::string_view bytes);
  // Forwards the rest, even an incomplete line.
  void end();

 private:
  static constexpr std::size_t kLongestLine = 64 * 1024;  // a longer line is forwarded in pieces

  void hand_on(std::size_t bytes);

  std::string tag_;
  Sink* sink_;
  RankLog* log_;
  std::string partial_;
  bool inside_line_ = false;  // a piece of this line has already been forwarded
};

}  // namespace anellorun
