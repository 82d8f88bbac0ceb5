#pragma once
// Frames of communicators that this rank has yet to create: a peer that has created one already may send at once. Each
// peer may send as much ahead as it has credit for. Requires the rank's lock.
#include "messaging/early_frame.h"
#include "messaging/frame.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace anello::messaging {

class StrayFrames {
 public:
  explicit StrayFrames(FramePool& pool) : pool_(pool) {}
  ~StrayFrames() { pool_.give_back_all(frames_); }
  StrayFrames(const StrayFrames&) = delete;
  StrayFrames& operator=(const StrayFrames&) = delete;

  // Limit for all peers together in a job of this many ranks.
  static std::size_t most_bytes(int ranks);

  enum class Verdict {
    admitted,
    too_many,       // the peers have sent most_bytes() ahead
    beyond_credit,  // this peer has sent more than a rank may
  };
  // Decides on a frame that begins to arrive. A refused frame leaves a gap, so its communicator must fail.
  Verdict admit(const transport::FrameHeader& header, int source, int ranks);
  // Stores a frame that has arrived completely.
  void keep(EarlyFrame* frame);
  // Returns the frames for a communicator that has been created, in order. The caller owns them.
  EarlyFrames take(std::uint64_t communicator);
  // Drops the frames of communicators that will never be created.
  template <class IsPast>
  void forget(IsPast&& is_past) {
    for (EarlyFrame* frame = frames_.front(); frame != nullptr;) {
      EarlyFrame* const next = EarlyFrames::after(frame);
      if (is_past(frame->header.communicator)) pool_.give_back(remove(frame));
      frame = next;
    }
    std::erase_if(ahead_, [&](const auto& ahead) { return is_past(ahead.first.first); });
  }

 private:
  // Bytes and notes that one peer has sent ahead for one communicator.
  struct Ahead {
    std::size_t steps = 0;
    std::size_t eager = 0;
    std::size_t notes = 0;
  };
  EarlyFrame* remove(EarlyFrame* frame);

  FramePool& pool_;
  EarlyFrames frames_;
  std::size_t bytes_ = 0;
  std::map<std::pair<std::uint64_t, int>, Ahead> ahead_;
};

}  // namespace anello::messaging
