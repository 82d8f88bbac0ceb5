#pragma once
// A step of a call over peers' or staging memory with its addresses worked out: operands and results lie where the
// kernels can load and store them as they are. A call that comes again with the same buffers does these and looks
// nothing up.
#include "schedule/step.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::kernels {
struct Reducer;
}

namespace anello::executor {

struct PlacedStep {
  // So many operands, and as many results, are worked on side by side. Ranks' buffers lie alike in their pages, so that
  // their lines want the same place in a cache, which has room for eight.
  static constexpr int kAbreast = 8;

  schedule::Kind kind = schedule::Kind::meet;  // or copy, or fold
  std::array<const void*, kAbreast> from{};
  std::array<void*, kAbreast> into{};
  int loads = 0;
  int stores = 0;
  std::size_t count = 0;  // elements; of a copy, bytes
  std::size_t bytes = 0;  // of each operand
  bool stages = false;    // a copy to where others load it
  bool fetches = false;   // a copy from staging memory
  // Which of `from` and `into` lie in staging memory: a bit each.
  std::uint8_t from_staging = 0;
  std::uint8_t into_staging = 0;

  void fold(const kernels::Reducer& reducer) const;
  // The same where this call has its staging memory so many bytes further on.
  void move_staging(std::ptrdiff_t by);
};

struct Operation;

// Operation::placed_steps, of a call whose buffers have their places: all of its plan's steps, if each can be placed
// and they are small together, or none.
void place_steps(Operation& operation);
// The same for where the call has its staging memory now.
void place_staged_steps(Operation& operation);
// Does one that is no meet. False, and it is not done: some rank has ended the call with an error.
bool do_placed(Operation& operation, const PlacedStep& step);

}  // namespace anello::executor
