#include "transports/verbs/outflow.h"

#include <algorithm>
#include <cstring>

namespace anello::transport {
namespace {

// The id of a request without data; other ids are the slot after their piece.
constexpr std::uint64_t kNumberId = ~std::uint64_t{0};

}  // namespace

VerbsOutflow::VerbsOutflow(VerbsQueuePair& pair, const VerbsMemory& ring, VerbsInflow& inflow)
    : pair_(pair), ring_(ring), inflow_(inflow) {
  waiting_.reserve(kSlots);
}

void VerbsOutflow::open(std::uint64_t peer_ring, std::uint32_t peer_key) {
  peer_ring_ = peer_ring;
  peer_key_ = peer_key;
  open_ = true;
  for (const Piece& piece : waiting_) post(piece);
  waiting_.clear();
}

// A slot is written again once the peer has freed it and this adapter has read it.
std::uint32_t VerbsOutflow::room() const { return kSlots - std::uint32_t(next_ - std::min(credited_, completed_)); }

// Returns the bytes of the next piece of the frame.
std::size_t VerbsOutflow::copy_piece(const FrameHeader& header, const std::byte* payload, std::size_t most) {
  std::byte* to = ring_.data() + next_ % kSlots * kSlotBytes;
  const std::size_t bytes = std::min(kFrameHead + header.bytes - begun_, most);
  std::size_t head = 0;
  if (begun_ == 0) {
    std::memcpy(to, &header, sizeof header);
    std::memset(to + sizeof header, 0, kFrameHead - sizeof header);
    head = kFrameHead;
  }
  if (bytes > head) std::memcpy(to + head, payload + (begun_ + head - kFrameHead), bytes - head);
  return bytes;
}

bool VerbsOutflow::write(const FrameHeader& header, const std::byte* payload) {
  const std::size_t total = kFrameHead + header.bytes;
  starved_ = false;
  do {
    const std::uint32_t to_end = kSlots - std::uint32_t(next_ % kSlots);
    const std::uint32_t slots = std::min({room(), to_end, kPieceSlots});
    if (slots == 0 || error_ != 0) {
      starved_ = true;
      return false;
    }
    const std::size_t bytes = copy_piece(header, payload, slots * kSlotBytes);
    begun_ += bytes;
    stage(bytes);
  } while (begun_ < total);
  begun_ = 0;
  return true;
}

void VerbsOutflow::stage(std::size_t bytes) {
  const Piece piece{next_, bytes};
  next_ += slots_of(bytes);
  if (open_) {
    post(piece);
  } else {
    waiting_.push_back(piece);
  }
}

void VerbsOutflow::post(const Piece& piece) {
  if (error_ != 0) return;
  const std::size_t at = piece.slot % kSlots * kSlotBytes;
  const PieceNumber number{std::uint16_t(slots_of(piece.bytes)), inflow_.take_owed()};
  error_ = pair_.post({.from = ring_.data() + at,
                       .key = ring_.local_key(),
                       .bytes = piece.bytes,
                       .to = peer_ring_ + at,
                       .to_key = peer_key_,
                       .number = number.value(),
                       .id = piece.slot + number.slots});
}

void VerbsOutflow::post_number(std::uint32_t number) {
  if (error_ != 0) return;
  error_ = pair_.post({.to = peer_ring_, .to_key = peer_key_, .number = number, .id = kNumberId});
  ++numbers_;
}

void VerbsOutflow::return_credit() {
  if (!open_ || inflow_.owed() < kCreditSlots || numbers_ + kSentOnce >= kSpareRequests) return;
  post_number(PieceNumber{0, inflow_.take_owed()}.value());
}

void VerbsOutflow::say_once(std::uint32_t number) {
  if (open_) post_number(number);
}

void VerbsOutflow::completed(std::uint64_t id) {
  if (id == kNumberId) {
    --numbers_;
  } else {
    completed_ = std::max(completed_, id);
  }
}

bool VerbsOutflow::take_credit(std::uint32_t slots) {
  if (credited_ + slots > next_) return false;
  credited_ += slots;
  return true;
}

}  // namespace anello::transport
