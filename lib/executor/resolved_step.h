#pragma once
// A step of a schedule with its addresses worked out: the action, its sources and its destinations. Every step that
// moves or reduces data in memory is resolved and then run here, on all paths of a call; only frames have their own
// paths.
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
  copy_past_caches,   // results that leave the caches before any rank loads them
  copy_to_staging,    // to where peers load it
  copy_from_staging,  // from where a peer has stored it
  copy_to_each,       // into a slice of every rank
  get,                // a peer's memory that has no address here
  widen,              // into an accumulator
  accumulate,         // like widen, but added to the accumulator
  combine,            // into[0] = from[0] op from[1]
  finish,             // from an accumulator
  finish_in_type,
  take_lines,       // an exchange's result from the board's lines
  deliver,          // a result that was formed beside the caller's buffer
  reduce,           // several ranks' operands, with all operands and results side by side
  reduce_in_blocks  // like reduce, if an operand must be read, or the caller's function combines it, or it has no place
};

struct ResolvedStep {
  // The most operands, and the most results, that are worked on side by side. Ranks' buffers lie alike in their pages,
  // so their lines compete for the same place in a cache, which has room for eight.
  static constexpr int kAbreast = 8;

  Action action = Action::nothing;
  // Which of `from` and `into` lie in staging memory: one bit each.
  std::uint8_t from_staging = 0;
  std::uint8_t into_staging = 0;
  int loads = 0;
  int stores = 0;
  std::size_t count = 0;  // elements
  std::size_t bytes = 0;  // of each operand
  std::array<const void*, kAbreast> from{};
  std::array<void*, kAbreast> into{};
  std::byte* streamed = nullptr;              // reduce: where its result goes past the caches afterwards
  transport::RemoteMemory* remote = nullptr;  // get: the way to from[0]
  int peer = -1;                              // get: the owner of from[0]
  const schedule::Step* step = nullptr;       // reduce_in_blocks, copy_to_each: finds places that are not held here
  std::size_t first = 0;                      // likewise: the first element within the step

  void reduce(const kernels::Reducer& reducer) const;
  // Moves the addresses by `by` bytes, if this call has its staging memory there.
  void move_staging(std::ptrdiff_t by);
};

// Thrown when a peer's memory could not be read after all.
struct ReadFailure {
  int rank;
  int error;  // an errno
  std::size_t bytes;
};

// Resolves `count` elements of a step that is not a frame's, from its element `first` on.
ResolvedStep resolve(Operation& operation, const schedule::Step& step, std::size_t first, std::size_t count);
// Throws ReadFailure.
void run_step(Operation& operation, const ResolvedStep& step);
// Gets bytes from that address in the process of a rank. Throws ReadFailure.
void get_from(const Operation& operation, transport::RemoteMemory& remote, int rank, const void* from, std::byte* into,
              std::size_t bytes);

// The `count` elements of a slice from its element `first` on.
inline schedule::Slice part_of(schedule::Slice slice, std::size_t first, std::size_t count) {
  slice.offset += first;
  slice.count = count;
  return slice;
}

}  // namespace anello::executor
