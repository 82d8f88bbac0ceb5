#pragma once
// A step of a schedule with its addresses worked out: what is done, from where, to where. Every step that moves or
// reduces data in memory is resolved and then run here, whichever way its call goes; only frames have ways of their
// own.
#include "schedule/step.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::kernels {
struct Reducer;
}
namespace anello::transport {
class RemoteMemory;
}

namespace anello::executor {

struct Operation;

enum class Action : std::uint8_t {
  nothing,
  barrier,  // of all ranks, on the board: run_step does not take it
  copy,
  copy_past_caches,   // results that nobody loads before the caches have lost them
  copy_to_staging,    // where peers load them
  copy_from_staging,  // where a peer has stored them
  get,                // a peer's memory, which no address here is of
  widen,              // into an accumulator
  accumulate,         // the same, added to what it holds
  combine,            // into[0] = from[0] op from[1]
  finish,             // from an accumulator
  finish_in_type,
  take_lines,       // of the board, an exchange's result
  deliver,          // a result that was formed beside the caller's buffer
  reduce,           // of several ranks, with all operands and results side by side
  reduce_in_blocks  // the same where some operand must be read, combined by the caller's function, or finds no place
};

struct ResolvedStep {
  // So many operands, and as many results, are worked on side by side. Ranks' buffers lie alike in their pages, so that
  // their lines want the same place in a cache, which has room for eight.
  static constexpr int kAbreast = 8;

  Action action = Action::nothing;
  // Which of `from` and `into` lie in staging memory: a bit each.
  std::uint8_t from_staging = 0;
  std::uint8_t into_staging = 0;
  int loads = 0;
  int stores = 0;
  std::size_t count = 0;  // elements
  std::size_t bytes = 0;  // of each operand
  std::array<const void*, kAbreast> from{};
  std::array<void*, kAbreast> into{};
  std::byte* streamed = nullptr;              // reduce: where its result goes past the caches afterwards
  transport::RemoteMemory* remote = nullptr;  // get: how from[0] is reached
  int peer = -1;                              // the same: whose it is
  const schedule::Step* step = nullptr;       // reduce_in_blocks: looks up what finds no place here
  std::size_t first = 0;                      // the same: the element of the step that is its first

  void reduce(const kernels::Reducer& reducer) const;
  // The same where this call has its staging memory so many bytes further on.
  void move_staging(std::ptrdiff_t by);
};

// A peer's memory could not be read after all.
struct ReadFailure {
  int rank;
  int error;  // an errno
  std::size_t bytes;
};

// `count` elements of a step that is no frame's, from its element `first` on.
ResolvedStep resolve(Operation& operation, const schedule::Step& step, std::size_t first, std::size_t count);
// Throws ReadFailure.
void run_step(Operation& operation, const ResolvedStep& step);
// Gets bytes from that address in the process of a rank. Throws ReadFailure.
void get_from(const Operation& operation, transport::RemoteMemory& remote, int rank, const void* from, std::byte* into,
              std::size_t bytes);

// So much of a slice from there on.
inline schedule::Slice part_of(schedule::Slice slice, std::size_t first, std::size_t count) {
  slice.offset += first;
  slice.count = count;
  return slice;
}

}  // namespace anello::executor
