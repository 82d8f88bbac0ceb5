#pragma once
// The receiving end of a ring. Called by the receiving rank only, one thread at a time. Everything that it reads from
// the sender is copied once and bounded before use: a mad neighbour makes it corrupt(), never an access outside the
// ring.
#include "transports/shm/ring.h"

#include <span>

namespace anello::transport {

class RingReader {
 public:
  RingReader(const memory::Arena& arena, int from, int to);

  // Changes with each frame that is accepted.
  std::uint64_t position() const { return next_; }

  // As Endpoint has them.
  const FrameHeader* incoming();
  std::size_t remaining() const { return current_ ? header_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes);
  std::span<const std::byte> view();
  void consume(std::size_t bytes);
  std::size_t arrived() const { return current_ ? arrived_ - consumed_ : 0; }

  // Something has arrived that no call above has reported yet.
  bool news() const;
  bool closed() const { return closed_; }  // by the sender; everything before was delivered
  bool corrupt() const { return corrupt_; }

 private:
  Slot& slot(std::uint64_t position) const { return *reinterpret_cast<Slot*>(data_ + (position & mask_)); }
  bool accept(const Slot& slot, std::uint64_t word);
  void look_at_tail();
  // A quarter of the ring at a time: a sender without room has more than that unread before it, so it is never left
  // waiting for less, and frames too small to matter cost no fence and no line that both sides write.
  void give_back(std::uint64_t upto) {
    if (upto - released_ >= (mask_ + 1) / 4) release(upto);
  }
  void release(std::uint64_t upto);

  memory::Arena arena_;
  memory::RingControl& control_;
  std::byte* data_;
  std::uint64_t mask_;
  int from_;
  std::uint64_t next_ = 0;      // position of the slot after the current frame, or of the one awaited
  std::uint64_t released_ = 0;  // head as the sender may see it
  // Of the current frame:
  std::uint64_t payload_ = 0;  // position
  std::size_t arrived_ = 0;
  std::size_t consumed_ = 0;
  FrameHeader header_;
  bool current_ = false;
  bool closed_ = false;
  bool corrupt_ = false;
};

}  // namespace anello::transport
