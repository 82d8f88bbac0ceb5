#include "messaging/stray_frames.h"

#include "messaging/rendezvous.h"

#include <algorithm>
#include <limits>

namespace anello::messaging {
namespace {

std::size_t cost_of(const transport::FrameHeader& header) { return header.bytes + kFrameCost; }

}  // namespace

std::size_t StrayFrames::most_bytes(int ranks) {
  return (kCredit + kSmallCredit) * std::max(kLeastStrayPeers, static_cast<std::size_t>(ranks));
}

StrayFrames::Verdict StrayFrames::admit(const transport::FrameHeader& header, int source, int ranks) {
  const std::size_t cost = cost_of(header);
  if (bytes_ + cost > most_bytes(ranks)) return Verdict::too_many;
  Ahead& ahead = ahead_[{header.communicator, source}];
  bool within = false;
  switch (static_cast<FrameKind>(header.kind)) {
    case FrameKind::step:
    case FrameKind::step_rts: within = (ahead.steps += cost) <= kCredit; break;
    case FrameKind::eager: within = (ahead.eager += cost) <= kSmallCredit; break;
    default: {
      const bool is_note = header.bytes == 0 || ((is_rts(header) || is_rts_on_device(header)) && has_address(header));
      within = is_note && ++ahead.notes <= kMaxUnexpected;
      break;
    }
  }
  return within ? Verdict::admitted : Verdict::beyond_credit;
}

void StrayFrames::keep(EarlyFrame* frame) {
  frames_.push(frame);
  bytes_ += cost_of(frame->header);
}

EarlyFrame* StrayFrames::remove(EarlyFrame* frame) {
  frames_.remove(frame);
  bytes_ -= cost_of(frame->header);
  return frame;
}

EarlyFrames StrayFrames::take(std::uint64_t communicator) {
  ahead_.erase(ahead_.lower_bound({communicator, -1}),
               ahead_.upper_bound({communicator, std::numeric_limits<int>::max()}));
  EarlyFrames taken;
  for (EarlyFrame* frame = frames_.front(); frame != nullptr;) {
    EarlyFrame* const next = EarlyFrames::after(frame);
    if (frame->header.communicator == communicator) taken.push(remove(frame));
    frame = next;
  }
  return taken;
}

}  // namespace anello::messaging
