#pragma once
// The receiving half of a lane over verbs: the ring that the peer writes (lane_shape.h). What the peer wrote is copied
// once and bounded before use.
#include "transports/verbs/lane_shape.h"
#include "transports/verbs/memory_keys.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anello::transport {

class VerbsInflow {
 public:
  explicit VerbsInflow(const std::byte* ring) : ring_(ring) {}

  // So many slots have come, from that place of the ring on. False: they are not free.
  bool arrive(std::uint32_t at, std::uint32_t slots);
  std::uint64_t came() const { return marks_.passed(); }
  // Slots that are free again and that the peer does not know of.
  std::uint32_t owed() const { return std::uint32_t(free_ - told_); }
  // All that have been freed since the lane began, modulo 2^16: the peer is told now.
  std::uint16_t take_credit();

  // As in Endpoint. Passes over the transport's own frames, whose contents it keeps.
  const FrameHeader* incoming();
  std::vector<MemoryKeys>& keys() { return keys_; }
  std::size_t remaining() const { return current_ ? header_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes);
  std::span<const std::byte> view();
  void consume(std::size_t bytes);
  std::size_t arrived() const;

  // Whether bytes have come that no call above has reported yet.
  bool news() const;
  // Whether bytes have come that have not been consumed.
  bool has_more() const;
  bool corrupt() const { return corrupt_; }

 private:
  bool begin_frame();
  // Slots are counted from the lane's beginning.
  SlotMarks marks_;             // those that have come
  std::uint64_t reported_ = 0;  // came() at the last look at the current frame
  std::uint64_t next_ = 0;      // the slot after the current frame, or of the awaited frame
  std::uint64_t free_ = 0;
  std::uint64_t told_ = 0;

  const std::byte* ring_;
  // Of the current frame:
  FrameHeader header_;
  std::uint64_t payload_ = 0;  // its position, in bytes from the lane's beginning
  std::size_t consumed_ = 0;
  bool current_ = false;
  bool corrupt_ = false;
  std::vector<MemoryKeys> keys_;  // that the peer has told since they were taken
};

}  // namespace anello::transport
