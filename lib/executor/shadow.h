#pragma once
// The host memory in which a call with buffers on a device runs: what the call reads is copied there before it begins,
// and what it has written is copied back before it ends.
#include "device/pinned.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

struct Shadow {
  struct Part {
    std::byte* device;
    std::size_t at;  // in the block
    std::size_t bytes;
  };
  enum class State : std::uint8_t {
    waiting,     // for its copies to the host, or for earlier calls'
    running,     // as any other call
    delivering,  // it has left its communicator, and its result is on its way to the device
  };

  int device = 0;
  device::PinnedBlock block;
  std::vector<Part> reads;
  std::vector<Part> writes;
  State state = State::waiting;
  bool is_copying = false;  // until the mark is reached (device/copies.h)
  std::uint32_t mark = 0;
};

}  // namespace anello::executor
