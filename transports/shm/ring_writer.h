#pragma once
// The sending end of a ring. Only the sending rank calls it, one thread at a time. It bounds the position that it reads
// from the receiver before use: a faulty receiver makes the ring corrupt(), but never causes an access outside it.
#include "memory/copy.h"
#include "transports/shm/ring.h"

namespace anello::transport {

class RingWriter {
 public:
  RingWriter(const memory::Arena& arena, int from, int to);

  // Takes as much of the frame as there is room for and wakes the receiver; true if it took all. Until then, call again
  // with the same frame. waits: this rank is likely to wait for an answer before it writes the next frame.
  bool write(const FrameHeader& header, const std::byte* payload, bool waits);
  bool mid_frame() const { return started_; }
  std::size_t taken() const { return taken_; }  // payload bytes of the frame under way
  bool corrupt() const { return corrupt_; }

  // Whether the last write lacked room.
  bool starved() const { return starved_; }
  // Asks the receiver to wake this rank when it frees room. A full fence and room_came must follow.
  void ask_for_room() { control_.sender_waits.store(1, std::memory_order_relaxed); }
  bool room_came() const { return control_.head.load(std::memory_order_relaxed) != head_; }

  // Tells the receiver that nothing more will come.
  void close();

 private:
  Slot& slot(std::uint64_t position) const { return *reinterpret_cast<Slot*>(data_ + (position & mask_)); }
  std::size_t room();
  bool has_room(std::size_t bytes) { return room_before_look() >= bytes || room() >= bytes; }
  std::size_t room_before_look() const {
    return mask_ + 1 - memory::kLine - static_cast<std::size_t>(position_ - head_);
  }
  void fill(const FrameHeader& header);
  void copy_in(const std::byte* from, std::size_t bytes);
  void announce(bool last, std::uint64_t mark = 0);
  void claim_next(std::size_t body);
  void wake();
  bool write_piecewise(const FrameHeader& header, const std::byte* payload);

  memory::Arena arena_;
  memory::RingControl& control_;
  std::byte* data_;
  std::uint64_t mask_;
  int to_;
  const std::atomic<std::uint32_t>& sleeping_;  // of the receiver
  bool fences_;
  memory::PieceCopy copy_;
  std::uint64_t position_ = 0;       // of the next byte to write; a multiple of kLine
  std::uint64_t head_ = 0;           // the receiver's, when last read
  std::uint64_t slot_position_ = 0;  // of the frame under way
  std::size_t taken_ = 0;
  bool started_ = false;
  bool stamped_ = false;
  bool starved_ = false;
  bool corrupt_ = false;
};

}  // namespace anello::transport
