#pragma once
// The host memory in which a call with buffers on a device runs: what the call reads is copied there before it begins,
// and what it has written is copied back before it ends.
#include "device/pinned.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

struct StreamLine;

struct Shadow {
  struct Part {
    std::byte* device;
    std::size_t at;  // from `base` on
    std::size_t bytes;
  };
  enum class State : std::uint8_t {
    waiting,     // for its copies to the host, or for earlier calls'
    running,     // as any other call
    delivering,  // it has left its communicator, and its result is on its way to the device
  };

  int device = -1;          // none: a call in a stream whose buffers are the host's
  device::PinnedBlock own;  // of a call that is in no stream
  std::byte* base = nullptr;
  std::vector<Part> reads;
  std::vector<Part> writes;
  State state = State::waiting;
  bool is_copying = false;  // until the mark is reached (device/copies.h)
  std::uint32_t mark = 0;
  StreamLine* line = nullptr;  // of a call in a stream, which does the copies (stream_calls.h)
};

}  // namespace anello::executor
