#pragma once
// The copies of a call that goes through the host and sends messages are made in pieces, which overlap with its steps:
// a step begins once the pieces that it works on have come from the device, and a piece goes back once all steps that
// store into it are done. So the network and both directions of the device's link are busy at the same time. The same
// holds for a message: its frames leave as its pieces come, and its pieces go back as its frames arrive.
//
// The ranks need not agree on this: a rank's peers only see when its messages come. Requires the rank's lock.
#include "schedule/step.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::device {
class Queue;
}

namespace anello::executor {

struct Operation;

struct Pieces {
  struct Held {
    std::uint32_t until;  // so many pieces have come
    std::uint32_t step;
  };

  std::size_t bytes = 0;              // of each in the call's host memory, the last may be shorter; 0: there are none
  std::vector<std::uint32_t> order;   // those that are fetched, as the steps need them
  std::vector<Held> held;             // by rising `until`
  std::vector<std::uint32_t> stores;  // by piece: the steps that will store into it
  bool go_back = false;               // while the call runs; else its result is copied once it has run

  // In the queues:
  device::Queue* fetches = nullptr;
  std::vector<std::uint32_t> marks;  // of the pieces in `order`, as far as they are enqueued
  std::size_t here = 0;              // how many have come
  std::size_t released = 0;          // how many of `held` wait no more
  device::Queue* returns = nullptr;  // null: no piece has gone back yet
  std::uint32_t last_return = 0;     // its mark
  std::uint32_t order_mark = 0;      // of a receive, in `fetches`: earlier work of the default stream is done
  std::uint32_t gone_back = 0;       // of a receive: so many pieces, from the first on

  bool any() const { return bytes != 0; }
  bool is_fetching() const { return here < marks.size(); }
  // Counts those that have come since. True: there are some.
  bool look();
  // Whether no copy is under way.
  bool are_quiet() const;
};

// Divides a message, or a call whose plan is known, if it goes through the host, peers do not reach its memory there,
// and it is large enough.
void divide(Operation& operation);
// The bytes of a message to send that have come from the device, if it is on one.
std::size_t bytes_here(const Operation& send);
// Called as the operation begins: its steps wait for their pieces, too.
void hold_steps(Operation& operation);
// The pieces in which a slice lies; none: it is not in the host memory that stands for the device's.
struct PieceRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};
PieceRange pieces_of(Operation& operation, const schedule::Slice& slice);

}  // namespace anello::executor
