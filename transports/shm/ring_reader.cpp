#include "transports/shm/ring_reader.h"

#include "memory/copy.h"

#include <algorithm>
#include <cstring>

namespace anello::transport {

RingReader::RingReader(const memory::Arena& arena, int from, int to)
    : arena_(arena),
      control_(arena.ring(from, to)),
      data_(arena.ring_data(from, to)),
      mask_(arena.layout().ring_bytes - 1),
      from_(from) {}

const FrameHeader* RingReader::incoming() {
  if (current_) {
    if (consumed_ < header_.bytes) return &header_;
    current_ = false;
    give_back(next_);
  }
  const Slot& s = slot(next_);
  const std::uint64_t stamp = s.stamp.load(std::memory_order_acquire);
  if (stamp == 0) return nullptr;
  if (stamp == kClosed) {
    closed_ = true;
    return nullptr;
  }
  return accept(s, stamp) ? &header_ : nullptr;
}

bool RingReader::accept(const Slot& s, std::uint64_t word) {
  const std::uint64_t stamp = word & ~kSpaced;
  const std::size_t space = stamp != word ? kSpace : 0;
  header_ = {s.bytes, s.kind, s.flags, s.communicator, s.digest, s.sequence, s.tag, s.argument};
  // The checked values must also be the used ones, even if the sender writes to the slot at this moment.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::size_t body = body_bytes(header_.bytes);
  const std::uint64_t came = stamp - next_;
  if (header_.bytes > kMaxFrameBytes || came < memory::kLine || came > memory::kLine + body + space ||
      came % memory::kLine != 0 || (space != 0 && came != memory::kLine + body + space) ||
      stamp - released_ > mask_ + 1) {
    corrupt_ = true;
    return false;
  }
  if (body == 0) {
    payload_ = next_ + offsetof(Slot, inlined);
    arrived_ = header_.bytes;
  } else {
    payload_ = next_ + memory::kLine;
    arrived_ = std::min<std::size_t>(header_.bytes, came - memory::kLine);
  }
  consumed_ = 0;
  current_ = true;
  next_ += memory::kLine + body + space;
  return true;
}

void RingReader::look_at_tail() {
  if (!current_ || arrived_ == header_.bytes) return;
  const std::uint64_t word = control_.tail.load(std::memory_order_acquire);
  const std::uint64_t tail = word & ~kClosed;
  const auto came = static_cast<std::int64_t>(tail - payload_);
  if (came <= static_cast<std::int64_t>(arrived_)) {  // the tail may even be an earlier frame's
    if ((word & kClosed) != 0) closed_ = true;
    return;
  }
  if (tail - released_ > mask_ + 1 || tail % memory::kLine != 0) {
    corrupt_ = true;
    return;
  }
  arrived_ = std::min<std::size_t>(header_.bytes, static_cast<std::size_t>(came));
}

std::span<const std::byte> RingReader::view() {
  if (consumed_ == arrived_) look_at_tail();
  const std::size_t at = (payload_ + consumed_) & mask_;
  return {data_ + at, std::min(arrived_ - consumed_, mask_ + 1 - at)};
}

void RingReader::consume(std::size_t bytes) {
  if (!current_) return;
  consumed_ += std::min(bytes, arrived_ - consumed_);
  give_back(consumed_ == header_.bytes ? next_ : (payload_ + consumed_) & ~std::uint64_t{memory::kLine - 1});
}

std::size_t RingReader::receive(std::byte* into, std::size_t bytes) {
  // An inlined payload has arrived completely, and lies in one piece.
  if (current_ && consumed_ == 0 && bytes == header_.bytes && bytes <= kInlined) {
    std::memcpy(into, data_ + (payload_ & mask_), bytes);
    consumed_ = bytes;
    give_back(next_);
    return bytes;
  }
  std::size_t done = 0;
  while (done < bytes && current_) {
    const std::span<const std::byte> here = view();
    if (here.empty()) break;
    const std::size_t part = std::min(here.size(), bytes - done);
    memory::copy_while_stored(into + done, here.data(), part);
    consume(part);
    done += part;
  }
  return done;
}

void RingReader::release(std::uint64_t upto) {
  released_ = upto;
  control_.head.store(upto, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (control_.sender_waits.load(std::memory_order_relaxed) == 0) return;
  control_.sender_waits.store(0, std::memory_order_relaxed);
  arena_.wake_after_fence(from_);
}

bool RingReader::news() const {
  if (current_ && consumed_ < header_.bytes) {
    if (arrived_ == header_.bytes) return false;
    const std::uint64_t tail = control_.tail.load(std::memory_order_relaxed);
    return static_cast<std::int64_t>((tail & ~kClosed) - payload_) > static_cast<std::int64_t>(arrived_) ||
           (tail & kClosed) != 0;
  }
  return slot(next_).stamp.load(std::memory_order_relaxed) != 0;
}

}  // namespace anello::transport
