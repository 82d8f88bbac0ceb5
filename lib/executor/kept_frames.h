#pragma once
// Frames that came before what they belong to: an operation that this rank has not come to, or a communicator that it
// has not created. And the credit of those that have been used. Requires the rank's lock.
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

  // For a communicator, which has ended where there is no memory to be had (null).
  EarlyFrame* keep_for(Group& group, const transport::FrameHeader& header, int source);
  // A whole frame of a step, kept while it arrived: to its operation, which may have been entered meanwhile.
  void arrived_early(Flow& flow, EarlyFrame* frame);
  void give_back(RunLane& lane);

  // Bytes of a counted frame have been used: they go back to the sender's credit in time.
  void consumed(Flow& flow, std::size_t bytes);
  void consumed_small(Flow& flow, std::size_t bytes);  // of eager

  // ---- Of a communicator that this rank has not created yet ----
  // Whether the frame may wait for it.
  bool keeps_stray(const transport::FrameHeader& header, int source);
  // One that has come whole.
  void stray(EarlyFrame* frame);
  // It has been created.
  void deliver_strays(Group& group);
  // A failure of it.
  void note_failed_early(std::uint64_t id, const Error& error);
  // What it failed with, if it did before it was created here.
  std::optional<Error> take_failure(std::uint64_t id);
  void forget_past();

 private:
  void deliver_stray(Flow& flow, EarlyFrame* frame);
  Error sent_too_much(int source) const;

  Parts& parts_;
  FramePool& frames_;
  StrayFrames strays_;
  std::unordered_map<std::uint64_t, Error> failed_early_;  // failed before they were created here
};

}  // namespace anello::executor
