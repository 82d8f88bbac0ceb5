#include "transports/verbs/outflow.h"

#include <algorithm>
#include <cstring>

namespace anello::transport {

VerbsOutflow::VerbsOutflow(VerbsRails& rails, VerbsInflow& inflow) : rails_(rails), inflow_(inflow) {
  waiting_.reserve(kLaneRequests);
}

// A slot is written again once the peer has freed it and the adapter does not need it.
std::uint32_t VerbsOutflow::room() const { return kSlots - std::uint32_t(next_ - std::min(credited_, sent_.passed())); }

// Returns the bytes of the next piece of the frame.
std::size_t VerbsOutflow::copy_piece(const FrameHeader& header, const std::byte* payload, FrameUse use,
                                     std::size_t most) {
  std::byte* to = rails_.staging() + next_ % kSlots * kSlotBytes;
  const std::size_t bytes = std::min(kFrameHead + header.bytes - begun_, most);
  std::size_t head = 0;
  if (begun_ == 0) {
    std::memcpy(to, &header, sizeof header);
    std::memcpy(to + sizeof header, &use, sizeof use);
    head = kFrameHead;
  }
  if (bytes > head) std::memcpy(to + head, payload + (begun_ + head - kFrameHead), bytes - head);
  return bytes;
}

bool VerbsOutflow::write(const FrameHeader& header, const std::byte* payload, FrameUse use) {
  const std::size_t total = kFrameHead + header.bytes;
  starved_ = false;
  do {
    const std::uint32_t to_end = kSlots - std::uint32_t(next_ % kSlots);
    const std::uint32_t slots = std::min({room(), to_end, kPieceSlots});
    if (slots == 0) {
      starved_ = true;
      return false;
    }
    const std::size_t bytes = copy_piece(header, payload, use, slots * kSlotBytes);
    begun_ += bytes;
    stage(bytes);
  } while (begun_ < total);
  begun_ = 0;
  return true;
}

void VerbsOutflow::stage(std::size_t bytes) {
  const LanePiece piece{next_, std::uint32_t(bytes), {}};
  next_ += slots_of(bytes);
  post(piece);
}

void VerbsOutflow::post(const LanePiece& piece) {
  if (!waiting_.empty() || !try_to_post(piece)) waiting_.push_back(piece);
}

bool VerbsOutflow::try_to_post(const LanePiece& piece) {
  if (!rails_.is_open()) return false;
  PieceNumber number = piece.number;
  if (!number.is_said_once()) {
    number.slots = std::uint8_t(slots_of(piece.bytes));
    number.at = std::uint8_t(piece.slot % kSlots);
    number.count = inflow_.take_credit();
  }
  return rails_.post(piece, number.value());
}

void VerbsOutflow::go_on() {
  std::size_t gone = 0;
  while (gone < waiting_.size() && try_to_post(waiting_[gone])) ++gone;
  waiting_.erase(waiting_.begin(), waiting_.begin() + std::ptrdiff_t(gone));
  if (!rails_.is_open() || numbers_ + kSentOnce >= kSpareRequests) return;
  if (inflow_.owed() < kCreditSlots && !credit_is_lost_) return;
  credit_is_lost_ = false;
  ++numbers_;
  post({});
}

void VerbsOutflow::say_once(const PieceNumber& number) {
  ++numbers_;
  post({0, 0, number});
}

void VerbsOutflow::sent(const LanePiece& piece) {
  if (piece.bytes == 0) {
    --numbers_;
  } else {
    sent_.mark(piece.slot, slots_of(piece.bytes));
  }
}

// The credit that went with it may be lost, too.
void VerbsOutflow::lost(const LanePiece& piece) {
  credit_is_lost_ = true;
  if (piece.bytes > 0 || piece.number.is_said_once()) {
    post(piece);
  } else {
    --numbers_;
  }
}

// Numbers of different rails may overtake each other.
bool VerbsOutflow::take_credit(std::uint16_t count) {
  const auto more = std::int16_t(count - std::uint16_t(credited_));
  if (more <= 0) return true;
  if (credited_ + std::uint64_t(more) > next_) return false;
  credited_ += std::uint64_t(more);
  return true;
}

}  // namespace anello::transport
