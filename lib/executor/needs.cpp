#include "executor/needs.h"

#include "base/kind.h"
#include "executor/group.h"
#include "executor/run.h"

namespace anello::executor {
namespace {

// Whether a message to the peer has not left, or one from the peer is neither received nor kept.
bool lacks(const RunLane& lane) {
  if (lane.next_send < lane.plan->sends.size() || lane.offered > 0) return true;
  // An empty message has no bytes to count.
  if (lane.next_receive < lane.plan->receives.size() && lane.early.empty() &&
      message_bytes(*lane.operation, lane.plan->receives[lane.next_receive]) == 0) {
    return true;
  }
  std::size_t outstanding = 0;
  for (std::size_t i = lane.next_receive; i < lane.plan->receives.size(); ++i) {
    outstanding += message_bytes(*lane.operation, lane.plan->receives[i]);
  }
  std::size_t here = lane.received + (lane.applied != nullptr ? lane.applied->header.bytes : 0);
  for (const EarlyFrame* frame = lane.early.front(); frame != nullptr; frame = frame->next) {
    if (!is_step_rts(frame->header)) here += frame->header.bytes;
  }
  return here < outstanding;
}

}  // namespace

bool needs(const Operation& operation, int peer) {
  if (is_message(operation.kind)) return operation.peer == peer;
  if (operation.is_on_board()) return operation.group->board.awaits(peer);
  // A queued operation is checked once it is in flight: all that it needs may have come already.
  if (operation.state != Operation::State::active) return false;
  if (operation.peer_work.without == peer) return true;
  for (const RunLane& lane : operation.run.lanes) {
    if (lane.plan->peer == peer && lacks(lane)) return true;
  }
  return false;
}

}  // namespace anello::executor
