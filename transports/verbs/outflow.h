#pragma once
// The sending half of a lane over verbs (lane_shape.h). Frames may be given to it before the peer can receive: they
// wait in its ring.
#include "transports/verbs/inflow.h"
#include "transports/verbs/lane_shape.h"
#include "transports/verbs/queue_pair.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::transport {

class VerbsOutflow {
 public:
  // inflow: of the same lane, whose freed slots go with the pieces.
  VerbsOutflow(VerbsQueuePair& pair, const VerbsMemory& ring, VerbsInflow& inflow);

  // The peer can receive.
  void open(std::uint64_t peer_ring, std::uint32_t peer_key);

  // As Endpoint::send.
  bool write(const FrameHeader& header, const std::byte* payload);
  bool mid_frame() const { return begun_ > 0; }
  std::size_t payload_taken() const { return begun_ == 0 ? 0 : begun_ - kFrameHead; }
  bool starved() const { return starved_; }  // the last write found no room for all of its frame
  // The refused frame will not be offered again.
  void forget() { starved_ = false; }
  bool has_room() const { return room() > 0; }
  // For the rest of a frame with so many bytes.
  bool has_room_for(std::size_t payload) const { return room() >= slots_of(kFrameHead + payload - begun_); }
  bool is_done() const { return next_ == completed_ && numbers_ == 0; }  // every request has been completed
  std::size_t unsent_bytes() const { return std::size_t(next_ - completed_) * kSlotBytes; }

  // Returns credit without data if the peer may wait for it.
  void return_credit();
  // A number of PieceNumber, at most once each; nothing goes after a goodbye.
  void say_once(std::uint32_t number);

  // A request of this half has been completed.
  void completed(std::uint64_t id);
  // The peer has freed slots. False: more than were under way.
  bool take_credit(std::uint32_t slots);

  int broken() const { return error_; }  // errno of a request that could not be posted, or 0

 private:
  // A piece of the ring that has not been posted.
  struct Piece {
    std::uint64_t slot;
    std::size_t bytes;
  };
  std::uint32_t room() const;
  std::size_t copy_piece(const FrameHeader& header, const std::byte* payload, std::size_t most);
  void stage(std::size_t bytes);
  void post(const Piece& piece);
  void post_number(std::uint32_t number);

  VerbsQueuePair& pair_;
  const VerbsMemory& ring_;
  VerbsInflow& inflow_;
  std::vector<Piece> waiting_;  // until the peer can receive
  std::uint64_t peer_ring_ = 0;
  std::uint32_t peer_key_ = 0;
  bool open_ = false;

  // Slots are counted from the lane's beginning.
  std::uint64_t next_ = 0;       // the first that nothing has been copied to
  std::uint64_t completed_ = 0;  // all before it have been sent
  std::uint64_t credited_ = 0;   // all before it are free at the peer
  std::size_t begun_ = 0;        // bytes of the frame under way that have been copied, its head included
  std::uint32_t numbers_ = 0;    // requests without data under way
  bool starved_ = false;
  int error_ = 0;
};

}  // namespace anello::transport
