#pragma once
// Keeps frames that came before their operation was entered or their communicator was created, and returns the credit
// of consumed frames. Requires the rank's lock.
#include "executor/group.h"
#include "executor/parts.h"
#include "messaging/stray_frames.h"

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace anello::executor {

class KeptFrames {
 public:
  explicit KeptFrames(Parts& parts);

  // Takes a frame for a communicator. Null: there is no memory, and the communicator has ended.
  EarlyFrame* keep_for(Group& group, const transport::FrameHeader& header, int source);
  // Gives a whole frame of a step, kept while it arrived, to its operation, which may have been entered meanwhile.
  void arrived_early(Flow& flow, EarlyFrame* frame);
  void give_back(RunLane& lane);

  // Bytes of a counted frame have been consumed: they return to the sender's credit in time.
  void consumed(Flow& flow, std::size_t bytes);
  void consumed_small(Flow& flow, std::size_t bytes);  // of an eager frame

  // ---- Frames of a communicator that this rank has not created yet ----
  // Whether the frame may wait for its communicator.
  bool keeps_stray(const transport::FrameHeader& header, int source);
  // Keeps a stray frame that has come whole.
  void stray(EarlyFrame* frame);
  // Delivers the frames kept for a communicator that has been created.
  void deliver_strays(Group& group);
  // Notes a failure of such a communicator.
  void note_failed_early(std::uint64_t id, const Error& error);
  // Returns the error with which it failed before it was created here, if it did.
  std::optional<Error> take_failure(std::uint64_t id);
  void forget_past();

 private:
  void deliver_stray(Flow& flow, EarlyFrame* frame);
  Error sent_too_much(int source) const;

  Parts& parts_;
  FramePool& frames_;
  StrayFrames strays_;
  std::unordered_map<std::uint64_t, Error> failed_early_;  // communicators that failed before they were created here
};

}  // namespace anello::executor
