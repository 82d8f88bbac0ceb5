#pragma once
// The sending half of a lane over verbs (lane_shape.h). Frames may be given to it before the peer can receive: they
// wait in its ring.
#include "transports/verbs/inflow.h"
#include "transports/verbs/lane_shape.h"
#include "transports/verbs/rails.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::transport {

class VerbsOutflow {
 public:
  // inflow: of the same lane, whose freed slots go with the pieces.
  VerbsOutflow(VerbsRails& rails, VerbsInflow& inflow);

  // As Endpoint::send.
  bool write(const FrameHeader& header, const std::byte* payload, FrameUse use = FrameUse::user);
  bool mid_frame() const { return begun_ > 0; }
  std::size_t payload_taken() const { return begun_ == 0 ? 0 : begun_ - kFrameHead; }
  bool starved() const { return starved_; }  // the last write found no room for all of its frame
  // The refused frame will not be offered again.
  void forget() { starved_ = false; }
  bool has_room() const { return room() > 0; }
  // For the rest of a frame with so many bytes.
  bool has_room_for(std::size_t payload) const { return room() >= slots_of(kFrameHead + payload - begun_); }
  bool is_done() const { return next_ == sent_.passed() && numbers_ == 0; }  // all is at the peer
  std::size_t unsent_bytes() const { return std::size_t(next_ - sent_.passed()) * kSlotBytes; }

  // Posts what has waited for a rail, and returns credit without data if the peer may wait for it.
  void go_on();
  // Nothing is written after it.
  void say_goodbye() { say_once({PieceNumber::kGoodbye, 0, std::uint16_t(next_)}); }
  // A PieceNumber that comes without a piece and must not be lost.
  void say_once(const PieceNumber& number);

  // As LaneUser.
  void sent(const LanePiece& piece);
  void lost(const LanePiece& piece);
  // PieceNumber::count of the peer's. False: more than were under way.
  bool take_credit(std::uint16_t count);

 private:
  std::uint32_t room() const;
  std::size_t copy_piece(const FrameHeader& header, const std::byte* payload, FrameUse use, std::size_t most);
  void stage(std::size_t bytes);
  void post(const LanePiece& piece);
  bool try_to_post(const LanePiece& piece);

  VerbsRails& rails_;
  VerbsInflow& inflow_;
  std::vector<LanePiece> waiting_;  // for a rail

  // Slots are counted from the lane's beginning.
  std::uint64_t next_ = 0;      // the first that nothing has been copied to
  SlotMarks sent_;              // those that are at the peer
  std::uint64_t credited_ = 0;  // all before it are free at the peer
  std::size_t begun_ = 0;       // bytes of the frame under way that have been copied, its head included
  std::uint32_t numbers_ = 0;   // under way alone
  bool credit_is_lost_ = false;
  bool starved_ = false;
};

}  // namespace anello::transport
