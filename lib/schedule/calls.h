#pragma once
// One call as its ranks make it: equal on all ranks or, if it is in place on some ranks or has varying parts, different
// on each. Also finds the places of the slices of one rank's steps in the buffers of all ranks.
#include "schedule/schedule.h"
#include "schedule/shape.h"

#include <utility>
#include <vector>

namespace anello::schedule {

class Calls {
 public:
  Calls(std::vector<Call> calls, int size) : calls_(std::move(calls)), size_(size) {}

  const Call& of(int rank) const { return calls_[calls_.size() == 1 ? 0 : static_cast<std::size_t>(rank)]; }
  const Call& shared() const { return calls_.front(); }  // for the properties that are equal on all ranks
  int size() const { return size_; }

  // Calls visit(owner, slice in that rank's buffers) for every rank whose buffer a slice of `rank`'s step belongs to.
  template <class Visit>
  void for_each_owner(int rank, const Slice& slice, Visit&& visit) const {
    Slice there = slice;
    there.owner = kOwn;
    if (slice.owner == kOwn) return visit(rank, there);
    for (int r = slice.owner == kEach ? 0 : slice.owner; r < size_; ++r) {
      visit(r, resolve(there, of(r), r));
      if (slice.owner != kEach) return;
    }
  }

 private:
  std::vector<Call> calls_;
  int size_;
};

}  // namespace anello::schedule
