#pragma once
// Folds of what lies in several ranks' memory: each one's slice, in rank order, to one place or to each of them.
#include "executor/operation.h"

#include <cstddef>
#include <optional>

namespace anello::executor {

// A peer's memory could not be read after all.
struct ReadFailure {
  int rank;
  int error;  // an errno
  std::size_t bytes;
};

// A slice of a peer's that this process reads by system call. Throws ReadFailure.
void read_peer(const Operation& operation, const schedule::Slice& slice, int rank, std::byte* into);

// Of a fold or fold_staged, `count` elements from its element `from` on. Throws ReadFailure.
void fold_piece(Operation& operation, const schedule::Step& step, std::size_t from, std::size_t count);

// The whole of a fold or fold_staged with its addresses, if the kernels can load and store all of them as they are.
std::optional<PlacedStep> place_fold(Operation& operation, const schedule::Step& step);

// So much of a slice from there on.
inline schedule::Slice part_of(schedule::Slice slice, std::size_t from, std::size_t count) {
  slice.offset += from;
  slice.count = count;
  return slice;
}

}  // namespace anello::executor
