#include "executor/kept_frames.h"

#include "base/log.h"
#include "base/text.h"
#include "executor/groups.h"
#include "executor/messages.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/run.h"
#include "executor/supervision.h"

#include <cstring>
#include <utility>

namespace anello::executor {

KeptFrames::KeptFrames(Parts& parts) : parts_(parts), frames_(parts.frames), strays_(parts.frames) {}

EarlyFrame* KeptFrames::keep_for(Group& group, const transport::FrameHeader& header, int source) {
  EarlyFrame* frame = nullptr;
  parts_.outcomes.with_memory(group, [&] { frame = frames_.take(header, source); });
  return frame;
}

void KeptFrames::consumed(Flow& flow, std::size_t bytes) {
  flow.credit.steps.consumed(bytes);
  if (flow.credit.owes_much()) parts_.routes.want_to_send(flow);
}

void KeptFrames::consumed_small(Flow& flow, std::size_t bytes) {
  flow.credit.eager.consumed(bytes);
  if (flow.credit.owes_much()) parts_.routes.want_to_send(flow);
}

void KeptFrames::give_back(RunLane& lane) {
  frames_.give_back_all(lane.early);
  if (lane.applied != nullptr) frames_.give_back(std::exchange(lane.applied, nullptr));
}

// Later frames would pass for a missing one: if this rank cannot keep a frame, the communicator fails once it is made.
bool KeptFrames::keeps_stray(const transport::FrameHeader& header, int source) {
  const std::uint64_t id = header.communicator;
  if (failed_early_.contains(id)) return false;
  const auto refuse = [&](const Error& error) {
    log::warn(parts_.job.rank(), error.text());
    note_failed_early(id, error);
    return false;
  };
  switch (strays_.admit(header, source, parts_.job.size())) {
    case StrayFrames::Verdict::admitted: return true;
    case StrayFrames::Verdict::too_many:
      return refuse(Error(
          ANELLO_ERR_RESOURCE,
          text("ranks have sent more than ", StrayFrames::most_bytes(parts_.job.size()),
               " bytes for communicators that this rank has yet to create, the last one ", parts_.job.describe(source)),
          source));
    case StrayFrames::Verdict::beyond_credit: return refuse(sent_too_much(source));
  }
  return false;
}

void KeptFrames::note_failed_early(std::uint64_t id, const Error& error) {
  constexpr std::size_t kMost = 1024;
  if (failed_early_.size() < kMost) failed_early_.emplace(id, error);
}

Error KeptFrames::sent_too_much(int source) const {
  return Error(ANELLO_ERR_CORRUPT, parts_.job.describe(source) + " sent more ahead than it had credit for", source);
}

void KeptFrames::stray(EarlyFrame* frame) {
  // The communicator may have been created, or destroyed again, while the frame arrived.
  Group* const group = parts_.groups.find(frame->header.communicator);
  if (group == nullptr && parts_.groups.is_past(frame->header.communicator)) return frames_.give_back(frame);
  strays_.keep(frame);
  if (group != nullptr) deliver_strays(*group);
}

// Drops frames and failures of communicators that were not made in the end, or have been destroyed since.
void KeptFrames::forget_past() {
  const auto is_past = [this](std::uint64_t id) { return parts_.groups.is_past(id); };
  strays_.forget(is_past);
  std::erase_if(failed_early_, [&](const auto& failed) { return is_past(failed.first); });
}

std::optional<Error> KeptFrames::take_failure(std::uint64_t id) {
  const auto failed = failed_early_.find(id);
  if (failed == failed_early_.end()) return std::nullopt;
  std::optional<Error> error = failed->second;
  failed_early_.erase(failed);
  return error;
}

void KeptFrames::deliver_strays(Group& group) {
  EarlyFrames came = strays_.take(group.id);
  while (EarlyFrame* frame = came.pop()) {
    const int peer = group.rank_of_world(frame->source);
    if (peer < 0 || group.error) {
      frames_.give_back(frame);
    } else {
      deliver_stray(group.flows.to(peer), frame);
    }
  }
}

void KeptFrames::deliver_stray(Flow& flow, EarlyFrame* frame) {
  const auto kind = static_cast<FrameKind>(frame->header.kind);
  const bool counts = is_of_step(kind) || kind == FrameKind::eager;
  if (counts && !flow.credit.of(kind).keep(frame->header.bytes)) {
    parts_.outcomes.fail(*flow.group, sent_too_much(frame->source), true);
    frames_.give_back(frame);
  } else if (is_of_step(kind)) {
    arrived_early(flow, frame);
  } else if (kind == FrameKind::eager) {
    parts_.messages.on_eager(flow, frame);
  } else {
    transport::RemoteAddress at;
    const bool is_request = kind == FrameKind::rts || kind == FrameKind::rts_on_device;
    if (is_request && has_address(frame->header)) std::memcpy(&at, frame->payload.data(), kAddressBytes);
    flow.route->on_note(flow, frame->header, at);
    frames_.give_back(frame);
  }
}

void KeptFrames::arrived_early(Flow& flow, EarlyFrame* frame) {
  Operation* operation = flow.group->find(frame->header.sequence);
  if (flow.group->is_of_another_call(operation, frame->header)) {
    parts_.supervision.suspect(*flow.group, frame->header.sequence, flow.peer);
    frames_.give_back(frame);
    return;
  }
  if (operation != nullptr && operation->state == Operation::State::active) {
    for (RunLane& lane : operation->run.lanes) {
      if (lane.flow != &flow) continue;
      lane.early.push(frame);
      resume_early(lane);
      return;
    }
  }
  flow.early.insert(frame, [](const EarlyFrame& a, const EarlyFrame& b) {
    return control::before(a.header.sequence, b.header.sequence);
  });
}

}  // namespace anello::executor
