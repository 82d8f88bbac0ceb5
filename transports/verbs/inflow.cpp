#include "transports/verbs/inflow.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace anello::transport {

bool VerbsInflow::arrive(std::uint32_t at, std::uint32_t slots) {
  const std::uint64_t first = came() + (at - came()) % kSlots;
  return slots == 0 || (first + slots - told_ <= kSlots && marks_.mark(first, slots));
}

std::uint16_t VerbsInflow::take_credit() {
  told_ = free_;
  return std::uint16_t(free_);
}

const FrameHeader* VerbsInflow::incoming() {
  if (current_) {
    if (consumed_ < header_.bytes) return &header_;
    current_ = false;
    free_ = next_;
  }
  while (next_ != came() && !corrupt_) {
    if (begin_frame()) return &header_;
  }
  return nullptr;
}

// False: it was the transport's own, or is none.
bool VerbsInflow::begin_frame() {
  const std::byte* const head = ring_ + next_ % kSlots * kSlotBytes;
  FrameUse use{};
  std::memcpy(&header_, head, sizeof header_);
  std::memcpy(&use, head + sizeof header_, sizeof use);
  // The checked length must also be the used one, even if the peer writes to the slot at this moment.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool is_user = use == FrameUse::user && header_.bytes <= kMaxFrameBytes;
  if (!is_user && (use != FrameUse::keys || header_.bytes != sizeof(MemoryKeys))) {
    corrupt_ = true;
    return false;
  }
  if (!is_user) {
    std::memcpy(&keys_.emplace_back(), head + kFrameHead, sizeof(MemoryKeys));  // in the frame's only slot
    free_ = ++next_;
    return false;
  }
  payload_ = next_ * kSlotBytes + kFrameHead;
  next_ += slots_of(kFrameHead + header_.bytes);
  consumed_ = 0;
  reported_ = came();
  current_ = true;
  return true;
}

std::size_t VerbsInflow::arrived() const {
  if (!current_) return 0;
  return std::min<std::uint64_t>(header_.bytes, came() * kSlotBytes - payload_) - consumed_;
}

std::span<const std::byte> VerbsInflow::view() {
  reported_ = came();
  const std::size_t at = (payload_ + consumed_) % kLaneRingBytes;
  return {ring_ + at, std::min(arrived(), kLaneRingBytes - at)};
}

void VerbsInflow::consume(std::size_t bytes) {
  if (!current_) return;
  consumed_ += std::min(bytes, arrived());
  free_ = consumed_ == header_.bytes ? next_ : (payload_ + consumed_) / kSlotBytes;
}

std::size_t VerbsInflow::receive(std::byte* into, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const std::span<const std::byte> here = view();
    if (here.empty()) break;
    const std::size_t part = std::min(here.size(), bytes - done);
    std::memcpy(into + done, here.data(), part);
    consume(part);
    done += part;
  }
  return done;
}

bool VerbsInflow::has_more() const { return current_ && consumed_ < header_.bytes ? arrived() > 0 : next_ != came(); }

bool VerbsInflow::news() const {
  return has_more() && (!current_ || consumed_ == header_.bytes || came() != reported_);
}

}  // namespace anello::transport
