#pragma once
// This end of one rail of a lane over verbs: a queue pair of one port, and the rings as that port knows them. When the
// port returns after a loss, the rail gets a new queue pair.
//
//   made        the peer is offered its queue pair
//   joining     iWARP: with the peer's, which takes a while
//   connected   with the peer's; pieces can come
//   open        the peer can receive, too
//   ending      one of the two ends has failed; what had been posted ends, with an error or without
//   ended       nothing comes any more, and the peer is told how much has come
//   down        the peer has told the same
//
// A queue pair delivers in order. So that number says which of the pieces without a completion have come.
#include "transports/verbs/greeting.h"
#include "transports/verbs/lane_shape.h"
#include "transports/verbs/pages.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/registrations.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anello::transport {

// What the ends of a lane do with its pieces.
class LaneUser {
 public:
  virtual ~LaneUser() = default;
  // The peer's number, perhaps with a piece.
  virtual void came(std::uint32_t number) = 0;
  // The piece is at the peer.
  virtual void sent(const LanePiece& piece) = 0;
  // The piece has not come to the peer, and never will.
  virtual void lost(const LanePiece& piece) = 0;
  // The port is to serve a rail, for the first time or again. Returns a new queue pair for transfers, if it has them.
  virtual VerbsPairName offers(const VerbsPort& port) = 0;
  // So is the peer's port that goes with it, whose place in the peer's greeting is partner. The peer is not told of the
  // rail before this returns.
  virtual void is_offered(const VerbsPort& port, std::size_t partner, const RailOffer& theirs) = 0;
};

class VerbsRail {
 public:
  enum class State { made, joining, connected, open, ending, ended, down };

  // The ring is written by the peer, staging read by the adapter; both outlive the rail. Throws Error.
  VerbsRail(std::shared_ptr<VerbsPort> port, const VerbsPages& ring, const VerbsPages& staging);
  VerbsRail(const VerbsRail&) = delete;
  VerbsRail& operator=(const VerbsRail&) = delete;

  State state() const { return state_; }
  bool is_up() const { return state_ <= State::open; }
  const std::shared_ptr<VerbsPort>& port() const { return port_; }

  // Throws Error.
  RailOffer offer() const;
  // With the queue pair that the peer has offered. Returns "" or why it cannot. It may be joining then.
  std::string connect(const RailOffer& theirs);
  // It has joined: it is connected now.
  bool takes_joined();
  void open() { state_ = State::open; }
  // A new queue pair for a rail that is down. Throws Error, and is down then.
  void make();

  // False: it cannot, and is ending.
  bool post(const LanePiece& piece, std::uint32_t number, std::uint64_t peer_ring);
  std::size_t under_way() const { return under_way_; }  // bytes, and one for each request
  // Takes in completions. After an error it is ending.
  void poll(LaneUser& lane);
  // Descriptor that is readable after a completion since arm(); -1: none can come.
  int descriptor() const { return pair_ == nullptr ? -1 : pair_->descriptor(); }
  void arm() {
    if (pair_ != nullptr) pair_->arm();
  }

  // Ends what has been posted.
  void stop(const std::string& why);
  const std::string& why() const { return why_; }
  // Since when the peer's adapter owes an answer that this one would wait for without end; 0: it does not.
  std::int64_t asked_ns() const { return is_up() ? pair_->asked_ns() : 0; }
  std::int64_t stopped_ns() const { return stopped_ns_; }
  // All of that has ended, as far as poll() has seen.
  bool has_ended() const;
  // When a poll() shows it at the latest; 0: no adapter leaves anything out.
  std::int64_t ends_ns() const;
  void end() { state_ = State::ended; }
  std::uint64_t came() const { return came_; }  // immediates
  // So many of the immediates of this end have come to the peer. False: that cannot be.
  bool resolve(std::uint64_t came, LaneUser& lane);
  // The port has come up, or has changed its addresses, since the rail was stopped.
  bool may_return() const;
  // Ends everything, at the lane's end.
  void drain() {
    if (pair_ != nullptr) pair_->drain();
  }

  const VerbsCounts& counts() const { return pair_ == nullptr ? counts_ : pair_->counts(); }

 private:
  void take(const ibv_wc& completion, LaneUser& lane);
  std::string why_failed(const ibv_wc& completion) const;

  const std::shared_ptr<VerbsPort> port_;
  const VerbsPages& staging_;
  VerbsRegistration ring_here_, staging_here_;
  std::unique_ptr<VerbsQueuePair> pair_;
  VerbsCounts counts_;  // of the last queue pair that is over
  State state_ = State::down;
  std::uint32_t peer_key_ = 0;
  std::uint64_t came_ = 0;  // immediates of this queue pair
  int used_receives_ = 0;   // requests that have been completed and not posted again
  std::vector<LanePiece> log_ = std::vector<LanePiece>(kLaneRequests);  // of posted pieces, by their number
  std::uint64_t posted_ = 0;
  std::uint64_t arrived_ = 0;  // those that have a completion: they are at the peer
  std::size_t under_way_ = 0;
  std::string why_;
  std::int64_t stopped_ns_ = 0;
  unsigned returns_ = 0;  // of the port, when the rail was stopped
};

}  // namespace anello::transport
