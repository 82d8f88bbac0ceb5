#include "transports/shm/ring_writer.h"

#include "base/processor.h"

#include <algorithm>
#include <cstring>

namespace anello::transport {
namespace {

// The receiver reads a piece while the next is written. Smaller pieces overlap better but cost a fence each.
constexpr std::size_t kPieceBytes = 16 * 1024;
// Smaller payloads have arrived before the receiver prefetches the lines behind them.
constexpr std::size_t kSpacedFrom = 1024;
// Most bytes that are claimed for the next frame. If it follows at once: as many lines as can be in flight together,
// and a few more. After pieces there is more time: as much as the nearest cache holds beside the caller's data.
constexpr std::size_t kClaimedAtOnce = 4 * 1024;
constexpr std::size_t kClaimedBehindPieces = 32 * 1024;

}  // namespace

RingWriter::RingWriter(const memory::Arena& arena, int from, int to)
    : arena_(arena),
      control_(arena.ring(from, to)),
      data_(arena.ring_data(from, to)),
      mask_(arena.layout().ring_bytes - 1),
      to_(to),
      sleeping_(arena.inbox(to).sleeping),
      fences_(arena.fences_for(to)) {}

std::size_t RingWriter::room() {
  const std::uint64_t head = control_.head.load(std::memory_order_acquire);
  if (head - head_ > position_ - head_) {
    corrupt_ = true;
    return 0;
  }
  head_ = head;
  return room_before_look();
}

void RingWriter::fill(const FrameHeader& header) {
  Slot& s = slot(position_);
  s.bytes = header.bytes;
  s.kind = header.kind;
  s.flags = header.flags;
  s.communicator = header.communicator;
  s.digest = header.digest;
  s.sequence = header.sequence;
  s.tag = header.tag;
  s.argument = header.argument;
  slot_position_ = position_;
  position_ += memory::kLine;
  stamped_ = false;
}

void RingWriter::copy_in(const std::byte* from, std::size_t bytes) {
  const std::size_t at = position_ & mask_;
  const std::size_t straight = std::min(bytes, mask_ + 1 - at);
  copy_.copy(data_ + at, from, straight);
  if (straight < bytes) copy_.copy(data_, from + straight, bytes - straight);
  position_ += whole_lines(bytes);
}

// Does the same as Arena::wake for a rank that the constructor has looked up.
[[gnu::always_inline]] inline void RingWriter::wake() {
  if (fences_) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  if (sleeping_.load(std::memory_order_relaxed) != 0) arena_.ring_bell(to_);
}

[[gnu::always_inline]] inline void RingWriter::announce(bool last, std::uint64_t mark) {
  if (last) slot(position_).stamp.store(0, std::memory_order_relaxed);
  if (stamped_) {
    control_.tail.store(position_, std::memory_order_release);
  } else {
    slot(slot_position_).stamp.store(position_ | mark, std::memory_order_release);
    stamped_ = true;
  }
  wake();
}

bool RingWriter::write(const FrameHeader& header, const std::byte* payload, bool waits) {
  const std::size_t body = body_bytes(header.bytes);
  const std::size_t space = waits && body >= kSpacedFrom ? kSpace : 0;
  if (started_ || body > kPieceBytes || !has_room(memory::kLine + body + space))
    return write_piecewise(header, payload);
  fill(header);
  if (body != 0) {
    copy_in(payload, header.bytes);
  } else if (header.bytes != 0) {
    std::memcpy(slot(slot_position_).inlined, payload, header.bytes);
  }
  position_ += space;
  starved_ = false;
  announce(true, space == 0 ? 0 : kSpaced);
  claim_next(space == 0 ? std::min(body, kClaimedAtOnce) : body);
  return true;
}

// The receiver read the next lines in the last round of the ring, so its caches hold them. This claims as many lines as
// the last frame took, but none that the receiver has yet to read.
void RingWriter::claim_next(std::size_t body) {
  const std::size_t ahead = std::min(memory::kLine + body, room_before_look());
  for (std::size_t i = 0; i < ahead; i += memory::kLine) claim_line(data_ + ((position_ + memory::kLine + i) & mask_));
}

bool RingWriter::write_piecewise(const FrameHeader& header, const std::byte* payload) {
  starved_ = false;
  if (!started_) {
    // A started frame must be announced, so there must be room for a slot and a line of payload. An inlined frame needs
    // less, and write found no room even for that.
    if (header.bytes <= kInlined || !has_room(2 * memory::kLine)) {
      starved_ = true;
      return false;
    }
    fill(header);
    started_ = true;
    taken_ = 0;
  }
  while (taken_ < header.bytes) {
    const std::size_t piece = std::min<std::size_t>(header.bytes - taken_, kPieceBytes);
    const std::size_t fits = has_room(whole_lines(piece)) ? piece : std::min(piece, room_before_look());
    if (fits == 0 || corrupt_) {
      starved_ = true;
      return false;
    }
    copy_in(payload + taken_, fits);
    taken_ += fits;
    announce(taken_ == header.bytes);
  }
  started_ = false;
  claim_next(std::min<std::size_t>(header.bytes, kClaimedBehindPieces));
  return true;
}

void RingWriter::close() {
  if (started_) {
    control_.tail.store(position_ | kClosed, std::memory_order_release);
  } else {
    slot(position_).stamp.store(kClosed, std::memory_order_release);
  }
  wake();
}

}  // namespace anello::transport
