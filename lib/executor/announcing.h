#pragma once
// A rank's first line of a call over peers' memory, and what follows from the ranks' first lines. A rank announces its
// buffers; a rank that already knows that the others cannot reach them goes on at once in the way that is left, and
// says so. Requires the rank's lock; the fast path uses this, too.
#include "executor/group.h"
#include "executor/parts.h"

#include <cstddef>
#include <cstdint>

namespace anello::executor {

// A communicator remembers about this many regions of one rank (Group::agreed).
inline constexpr std::size_t kMostAgreed = 1024;

// Whether a rank's line may be its payload instead of an announcement, so that the lines may be the whole call.
bool may_publish_payload(const Operation& operation);

// Counts the ranks' lines by kind, once all have come.
struct Entries {
  int payloads = 0;
  int staged = 0;
  int sends = 0;
  bool for_speed = false;  // some rank says that reading is slow
  int wrong = -1;          // a rank whose line is of a kind that this call cannot have
};
Entries entries_of(const Operation& operation);

class Announcing {
 public:
  static constexpr std::uint32_t kUndecided = ~std::uint32_t{0};

  explicit Announcing(Parts& parts);

  // Decides whether this rank prefers to stage the call. Most calls leave nothing to decide.
  void choose_way(Operation& operation) const {
    if (operation.plans->may_be_staged || operation.stays_away) take_turn(operation);
  }
  // Publishes this rank's first line.
  void announce(Operation& operation) const;
  // Enters as the last call with these buffers did, if that entry is known to be valid still.
  bool enters_again(Operation& operation) const;
  // Returns the next step of the call's plan where the lines alone determine it. kUndecided: they do not.
  std::uint32_t decide_by_lines(Operation& operation) const;
  // Like decide_by_lines, where this rank has entered as before; then the others nearly always have, too.
  std::uint32_t decide_as_before(Operation& operation) const;

 private:
  void take_turn(Operation& operation) const;

  memory::Buffers& buffers_;
  Steps& steps_;
  const memory::ReadPolicy::Wish staging_;
};

}  // namespace anello::executor
