// Supervision: ranks that seem to have made different calls.
#include "base/clock.h"
#include "executor/outcomes.h"
#include "executor/supervision.h"

#include <algorithm>
#include <bit>

namespace anello::executor {

namespace {

// After this long without news, the service threads compare the ranks' calls.
constexpr std::int64_t kComparePause = 50 * kMs;
// A busy thread may wait this long for each rank that shares its processor.
constexpr std::int64_t kTimeSlice = 4 * kMs;
// The pause if lines disagree: a rank may not have recorded its call when it was asked.
constexpr std::int64_t kAskAgain = 10 * kMs;
constexpr std::int64_t kLongestPause = 2000 * kMs;
// A rank waits this long for news before it first asks. The lowest ranks ask first: all others hear the question, which
// stands for theirs too, before they would ask.
std::int64_t first_pause(int rank, int sharing) {
  const std::int64_t step = kComparePause + (sharing > 1 ? sharing * kTimeSlice : 0);
  return step * (1 + std::bit_width(unsigned(rank) / 4));
}

}  // namespace

// If nothing has moved for a while, the service threads compare the ranks' calls.
void Supervision::compare_if_still(Group& group, std::int64_t now) {
  const Operation* const front = group.window.front();
  if (front == nullptr || group.error) return;
  if (group.compared_movement != group.movement || group.compare_at_ns == 0) {
    group.compared_movement = group.movement;
    group.compare_pause_ns = first_pause(group.rank, sharing_);
    group.compare_at_ns = now + group.compare_pause_ns;
  } else if (now >= group.compare_at_ns) {
    group.compare_pause_ns = std::min(2 * group.compare_pause_ns, kLongestPause);
    group.compare_at_ns = now + group.compare_pause_ns;
    job_.check_calls(group.id, front->sequence);
    check_early_frames(group);
    if (group.differs >= 0) job_.compare_calls(group.id, group.differs_at, group.differs);
  }
}

// A missing line may never come: its rank was refused the call, perhaps before this rank had recorded its own.
void Supervision::check_lines_behind(Group& group) {
  if (group.error) return;
  const auto disagreed = group.board.disagreed();
  if (disagreed) {
    suspect(group, disagreed->sequence, disagreed->rank);
  } else {
    group.board.catch_up();
  }
  if (!group.board.is_behind()) {
    group.ask_again_ns = 0;
    return;
  }
  const std::int64_t now = now_ns();
  if (now < group.ask_again_ns) return;
  if (group.ask_again_ns != 0) job_.compare_calls(group.id, group.board.behind_at());
  group.ask_again_ns = now + (disagreed ? kAskAgain : kComparePause);
}

void Supervision::suspect(Group& group, std::uint32_t sequence, int peer) {
  // The answer comes as an event. tick asks again if the records agree after all, or the peer does not answer. Signs of
  // later calls, perhaps for each of thousands, follow from the first one that differs.
  const bool known = group.differs >= 0 && !control::before(sequence, group.differs_at);
  if (known || (peer < 0 && group.suspected && group.suspected_at == sequence)) return;
  group.suspected = true;
  group.suspected_at = sequence;
  if (peer >= 0) {
    group.differs = peer;
    group.differs_at = sequence;
    check_early_frames(group);
    if (group.differs_at != sequence) return;  // that has found an earlier call
  }
  job_.compare_calls(group.id, sequence, peer);
}

void Supervision::suspect_lines(Group& group, const Operation& waiting) {
  if (const auto disagreed = group.board.disagreed()) {
    suspect(group, disagreed->sequence, disagreed->rank);
    return;
  }
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank || !group.board.differs(peer)) continue;
    suspect(group, waiting.sequence, peer);
    return;
  }
}

// A frame stays early if this rank's call expects nothing of its sender: the sender has made another call.
void Supervision::check_early_frames(Group& group) {
  if (group.error) return;
  const Operation* const front = group.window.front();
  // Calls from there on are not in flight, and have not taken their frames.
  const std::uint32_t end = front != nullptr ? front->sequence + kWindow : group.next_sequence;
  for (const Flow& flow : group.flows) {
    for (const EarlyFrame* frame = flow.early.front(); frame != nullptr; frame = frame->next) {
      const std::uint32_t sequence = frame->header.sequence;
      if (!control::before(sequence, end) || (group.differs >= 0 && !control::before(sequence, group.differs_at)))
        continue;
      if (group.is_of_another_call(group.find(sequence), frame->header)) suspect(group, sequence, flow.peer);
    }
  }
}

}  // namespace anello::executor
