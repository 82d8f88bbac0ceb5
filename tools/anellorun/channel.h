#pragma once
// Two pipes that carry frames in both directions. Nothing here blocks, and nothing here waits.
#include "anellorun/descriptor.h"
#include "anellorun/frames.h"

#include <optional>
#include <string>
#include <string_view>

namespace anellorun {

class Channel {
 public:
  // noise: whether anything may come before the other side's preamble. Throws std::system_error.
  Channel(Descriptor from, Descriptor to, bool noise);

  int from() const { return from_.get(); }
  int to() const { return to_.get(); }
  void send_raw(std::string_view bytes) { waiting_ += bytes; }
  void send(Kind kind, const Writer& body = {});
  bool pending() const { return to_ && !waiting_.empty(); }
  // Writes what goes without waiting. The other side's end is seen by read_some().
  void write_some();
  // False: the other side has closed its end. Throws WrongFrame.
  bool read_some();
  // The next whole frame, if there is one. Throws WrongFrame.
  std::optional<Frame> next();
  void close();

 private:
  Descriptor from_;
  Descriptor to_;
  bool noise_;
  std::string waiting_;
  std::string arrived_;
  std::size_t read_ = 0;  // bytes of arrived_ that have been given out
};

}  // namespace anellorun
