#pragma once
// What a call with buffers on a device has besides an operation. Where the ranks' devices can do its steps, it runs in
// place. Else it runs in host memory: what it reads is copied there before it begins, and what it has written is copied
// back before it ends.
#include "device/pinned.h"
#include "device/scratch.h"
#include "executor/peer_buffers.h"
#include "executor/pieces.h"
#include "memory/buffer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::executor {

struct Operation;
struct StreamLine;

struct Shadow {
  struct Part {
    std::byte* device;
    std::size_t at;  // from `base` on
    std::size_t bytes;
  };
  enum class State : std::uint8_t {
    waiting,     // for its data: copies to the host, earlier work of the device, or earlier calls'
    running,     // as any other call
    delivering,  // it has left its communicator, and its result is on its way to the device
  };
  enum class Way : std::uint8_t {
    host,
    offered,   // in place, if all ranks offer that: their lines tell (on_devices.cpp)
    in_place,  // its steps are the device's
  };

  // How a call that was offered in vain goes on, once its data is on the host.
  enum class Then : std::uint8_t {
    announce,  // its ranks announce their buffers anew
    plain,     // as ranks do that reach none of the others' buffers
  };

  // Another rank's message in device memory, which this rank's device reaches.
  struct Direct {
    const std::byte* from = nullptr;  // null: there is none
    std::shared_ptr<const void> kept;
  };

  int device = -1;  // none: a call in a stream whose buffers are the host's
  Way way = Way::host;
  Announced offer;  // no addresses: it goes through the host
  // Its buffers on the device; null: there is none, or it is the host's.
  const std::byte* device_input = nullptr;
  std::byte* device_output = nullptr;
  device::PinnedBlock own;       // of a call that is in no stream, or was offered; else its line has it
  std::byte* base = nullptr;     // of the host memory; null: it has none yet
  std::size_t bytes = 0;         // of it
  std::size_t output_at = 0;     // in it
  device::ScratchBlock scratch;  // of a call in place
  bool may_be_brought = false;   // a receive's message, by an adapter to the device's memory
  bool is_brought = false;       // it has been: no copy is left to make
  Direct direct;                 // what a receive is delivered from, instead of from the host
  std::vector<Part> reads;
  std::vector<Part> writes;
  State state = State::waiting;
  bool is_copying = false;  // until the mark is reached (device/queue.h)
  std::uint32_t mark = 0;
  bool is_ordered = false;   // the default stream, or the call's own, has come to it
  bool is_ordering = false;  // only the mark was enqueued: copies follow
  Pieces pieces;
  Then then = Then::announce;
  bool hangs = false;          // the device had not ended its steps when it ended with an error
  StreamLine* line = nullptr;  // of a call in a stream

  bool is_fetching() const { return pieces.is_fetching() || (is_copying && state != State::delivering); }
  memory::Space space() const { return {memory::Space::Kind::device, device}; }
  bool is_offer() const { return offer.input || offer.output; }
  // The operation's buffers are those on the device, or host memory. Throws Error: there is no memory to pin.
  void offer_again(Operation& operation);
  void move_to_host(Operation& operation);
  // Its copies may not end, or not all were enqueued: their memory is never used again.
  void keep_for_ever();
};

}  // namespace anello::executor
