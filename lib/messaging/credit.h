#pragma once
// What one rank may have under way to another within one communicator before the other has used it, and what this rank
// owes the other in return. Both ends count a frame alike: its payload and kFrameCost.
#include "messaging/frame.h"

#include <cstddef>
#include <cstdint>

namespace anello::messaging {

// Of one kind of frames, either way.
class Credit {
 public:
  explicit Credit(std::size_t limit) : limit_(limit), left_(limit) {}

  // ---- What this rank sends ----
  std::size_t left() const { return left_; }
  void spend(std::size_t bytes) { left_ -= bytes + kFrameCost; }
  // Whether so much of it is with the peer.
  bool is_spent(std::size_t amount) const { return amount <= limit_ - left_; }
  void refill(std::size_t amount) { left_ += amount; }

  // ---- What it receives ----
  // A frame is to wait here for what it belongs to. False: the peer has not had the credit for it.
  bool keep(std::size_t bytes) {
    const std::size_t used = kept_ + owed_;
    if (used > limit_ || bytes + kFrameCost > limit_ - used) return false;
    kept_ += bytes + kFrameCost;
    return true;
  }
  void no_longer_keeps(std::size_t bytes) { kept_ -= bytes + kFrameCost; }
  // It has been used, and is owed until it has gone back.
  void consumed(std::size_t bytes) { owed_ += bytes + kFrameCost; }
  std::size_t owed() const { return owed_; }
  void repaid() { owed_ = 0; }

 private:
  std::size_t limit_;
  std::size_t left_;
  std::size_t owed_ = 0;
  std::size_t kept_ = 0;
};

// Of steps, and apart from it of eager messages.
struct Credits {
  Credit steps{kCredit};
  Credit eager{kSmallCredit};

  Credit& of(FrameKind kind) { return kind == FrameKind::eager ? eager : steps; }
  // Worth a frame of its own.
  bool owes_much() const { return steps.owed() > kHeldBack || eager.owed() >= kSmallOwed; }
  // All that is owed, as the argument of a header; give_back: it is on its way.
  std::uint64_t owes() const { return steps.owed() | std::uint64_t{eager.owed()} << 32; }
  std::uint64_t give_back() {
    const std::uint64_t argument = owes();
    steps.repaid();
    eager.repaid();
    return argument;
  }
  // False, and nothing has come back: the peer never had so much.
  bool take_back(std::uint64_t argument) {
    const std::size_t of_steps = argument & 0xffffffffu, of_eager = argument >> 32;
    if (!steps.is_spent(of_steps) || !eager.is_spent(of_eager)) return false;
    steps.refill(of_steps);
    eager.refill(of_eager);
    return true;
  }
};

}  // namespace anello::messaging
