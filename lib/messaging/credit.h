#pragma once
// Counts the bytes that one rank may have under way to another within one communicator before the other has used them,
// and the credit that this rank owes the other. Both ends count a frame as its payload plus kFrameCost.
#include "messaging/frame.h"

#include <cstddef>
#include <cstdint>

namespace anello::messaging {

// Credit for one kind of frames, in both directions.
class Credit {
 public:
  explicit Credit(std::size_t limit) : limit_(limit), left_(limit) {}

  // ---- What this rank sends ----
  std::size_t left() const { return left_; }
  void spend(std::size_t bytes) { left_ -= bytes + kFrameCost; }
  // Whether the peer holds at least this much of it.
  bool is_spent(std::size_t amount) const { return amount <= limit_ - left_; }
  void refill(std::size_t amount) { left_ += amount; }

  // ---- What it receives ----
  // Keeps a frame until its operation needs it. False if the peer did not have the credit for it.
  bool keep(std::size_t bytes) {
    const std::size_t used = kept_ + owed_;
    if (used > limit_ || bytes + kFrameCost > limit_ - used) return false;
    kept_ += bytes + kFrameCost;
    return true;
  }
  void no_longer_keeps(std::size_t bytes) { kept_ -= bytes + kFrameCost; }
  // The bytes have been used, and are owed until they are returned.
  void consumed(std::size_t bytes) { owed_ += bytes + kFrameCost; }
  std::size_t owed() const { return owed_; }
  void repaid() { owed_ = 0; }

 private:
  std::size_t limit_;
  std::size_t left_;
  std::size_t owed_ = 0;
  std::size_t kept_ = 0;
};

// Separate credit for steps and for eager messages.
struct Credits {
  Credit steps{kCredit};
  Credit eager{kSmallCredit};

  Credit& of(FrameKind kind) { return kind == FrameKind::eager ? eager : steps; }
  // Whether enough is owed for a frame of its own.
  bool owes_much() const { return steps.owed() > kHeldBack || eager.owed() >= kSmallOwed; }
  // All that is owed, as the argument of a header. give_back also marks it as returned.
  std::uint64_t owes() const { return steps.owed() | std::uint64_t{eager.owed()} << 32; }
  std::uint64_t give_back() {
    const std::uint64_t argument = owes();
    steps.repaid();
    eager.repaid();
    return argument;
  }
  // False, without any effect, if the peer never had that much.
  bool take_back(std::uint64_t argument) {
    const std::size_t of_steps = argument & 0xffffffffu, of_eager = argument >> 32;
    if (!steps.is_spent(of_steps) || !eager.is_spent(of_eager)) return false;
    steps.refill(of_steps);
    eager.refill(of_eager);
    return true;
  }
};

}  // namespace anello::messaging
