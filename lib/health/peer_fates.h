#pragma once
// Tracks which peers have left the job or are lost, and whether their earlier data may still arrive: a wait for them
// ends only when nothing more can arrive. Requires the rank's lock. All times are monotonic, in nanoseconds.
#include "health/peer_lane.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace anello::health {

class PeerFates {
 public:
  enum class Fate : std::uint8_t { here, left, lost };
  // A peer that is lost.
  struct Loss {
    std::string how;           // it is known: a sentence
    bool found_here = false;   // known only here: no lane could be made
    bool for_certain = false;  // no more data from it is expected
    std::uint64_t came = 0;    // PeerLane::came, at the last check
    std::int64_t quiet_since = 0;
    std::size_t number = 0;  // the number of peers that were known to be lost before
  };

  // The other facts, besides news, that decide a peer's fate.
  struct Signs {
    std::int64_t left_communicator_at = 0;  // 0: it has not left it
    bool another_is_lost = false;           // among the communicator's members
    bool host_is_silent = false;            // control will report its loss, or hear from it again
  };

  // For a job with this many ranks.
  explicit PeerFates(int ranks);

  // ---- News ----
  // for_certain: none of its data is in flight any more. found_here: this rank could not reach it, which no other rank
  // knows.
  void note_loss(int peer, const std::string& how, bool found_here, bool for_certain, std::int64_t now);
  void note_leaving(int peer, std::int64_t now);
  // A lane from it has arrived: if only this rank had found it lost, it is not lost.
  void note_lane(int peer);
  // A peer has left a communicator, or a communicator has failed elsewhere.
  void note_trouble() { trouble_ = true; }

  // ---- What is known ----
  // Whether there has been any such news: otherwise no check is needed.
  bool is_any() const { return trouble_; }
  Fate of(int peer) const { return fates_[static_cast<std::size_t>(peer)]; }
  bool is_here(int peer) const { return of(peer) == Fate::here; }
  // Null: it is not known to be lost.
  const Loss* loss_of(int peer) const {
    const auto found = losses_.find(peer);
    return found != losses_.end() ? &found->second : nullptr;
  }
  // No process receives data sent to it. A peer that could not be reached may still get a lane.
  bool takes_nothing(int peer) const {
    const Loss* const loss = trouble_ ? loss_of(peer) : nullptr;
    return loss != nullptr && !loss->found_here;
  }
  // The lowest rank that has not left.
  int first_here() const;
  // The member that control has known to be lost for longest; -1: none.
  template <class IsMember>
  int first_lost(IsMember&& is_member) const {
    int first = -1;
    for (const auto& [peer, loss] : losses_) {
      if (loss.found_here || !is_member(peer)) continue;
      if (first < 0 || loss.number < losses_.at(first).number) first = peer;
    }
    return first;
  }

  // ---- Looking ----
  // Checks whether data still arrives from lost peers. lane_of(peer): null if there is no lane.
  template <class LaneOf>
  void look(std::int64_t now, LaneOf&& lane_of) {
    const bool was_stopped = begin_look(now);
    for (auto& [peer, loss] : losses_) look_at(loss, lane_of(peer), was_stopped, now);
  }
  // Whether a communicator need not wait for the peer any more. how: the text for the error.
  bool is_gone(int peer, PeerLane* lane, const Signs& signs, std::int64_t now, std::string& how) const;

 private:
  bool begin_look(std::int64_t now);
  static void look_at(Loss& loss, PeerLane* lane, bool was_stopped, std::int64_t now);

  std::vector<Fate> fates_;            // by rank
  std::vector<std::int64_t> left_at_;  // by rank: the time when news of its leaving arrived
  std::unordered_map<int, Loss> losses_;
  std::int64_t looked_at_ = 0;
  bool trouble_ = false;
};

}  // namespace anello::health
