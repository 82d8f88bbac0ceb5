#pragma once
// The receiving end of a ring. Only the receiving rank calls it, one thread at a time. It copies everything that it
// reads from the sender once, and bounds it before use: a faulty sender makes the ring corrupt(), but never causes an
// access outside it.
#include "transports/shm/ring.h"

#include <span>

namespace anello::transport {

class RingReader {
 public:
  RingReader(const memory::Arena& arena, int from, int to);

  // Changes with each accepted frame.
  std::uint64_t position() const { return next_; }

  // As in Endpoint.
  const FrameHeader* incoming();
  std::size_t remaining() const { return current_ ? header_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes);
  std::span<const std::byte> view();
  void consume(std::size_t bytes);
  std::size_t arrived() const { return current_ ? arrived_ - consumed_ : 0; }

  // Whether bytes have arrived that no call above has reported yet.
  bool news() const;
  bool closed() const { return closed_; }  // by the sender; everything from before has been delivered
  bool corrupt() const { return corrupt_; }

 private:
  Slot& slot(std::uint64_t position) const { return *reinterpret_cast<Slot*>(data_ + (position & mask_)); }
  bool accept(const Slot& slot, std::uint64_t word);
  void look_at_tail();
  // Gives back a quarter of the ring at a time. A sender without room has more unread bytes than that, so it never
  // waits for less; frames too small to matter cost no fence and no line that both sides write.
  void give_back(std::uint64_t upto) {
    if (upto - released_ >= (mask_ + 1) / 4) release(upto);
  }
  void release(std::uint64_t upto);

  memory::Arena arena_;
  memory::RingControl& control_;
  std::byte* data_;
  std::uint64_t mask_;
  int from_;
  std::uint64_t next_ = 0;      // position of the slot after the current frame, or of the awaited slot
  std::uint64_t released_ = 0;  // head as the sender sees it
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
