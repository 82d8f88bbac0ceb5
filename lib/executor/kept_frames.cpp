// Context: frames that came before what they belong to, and the credit for what was used.
#include "base/log.h"
#include "base/text.h"
#include "executor/context.h"
#include "executor/run.h"

#include <cstring>

namespace anello::executor {

EarlyFrame* Context::keep_for(Group& group, const transport::FrameHeader& header, int source) {
  EarlyFrame* frame = nullptr;
  with_memory(group, [&] { frame = frames_.take(header, source); });
  return frame;
}

void Context::consumed(Flow& flow, std::size_t bytes) {
  flow.credit.steps.consumed(bytes);
  if (flow.credit.owes_much()) want_to_send(flow);
}

// A hole in what a peer has sent would be taken for data later: where a frame cannot be kept, its communicator fails
// once it is made.
bool Context::keeps_stray(const transport::FrameHeader& header, int source) {
  const std::uint64_t id = header.communicator;
  if (failed_early_.contains(id)) return false;
  const auto refuse = [&](const Error& error) {
    log::warn(rank_, error.text());
    note_failed_early(id, error);
    return false;
  };
  switch (strays_.admit(header, source, job_->size())) {
    case StrayFrames::Verdict::admitted: return true;
    case StrayFrames::Verdict::too_many:
      return refuse(Error(
          ANELLO_ERR_RESOURCE,
          text("ranks have sent more than ", StrayFrames::most_bytes(job_->size()),
               " bytes for communicators that this rank has yet to create, the last one ", job_->describe(source)),
          source));
    case StrayFrames::Verdict::beyond_credit: return refuse(sent_too_much(source));
  }
  return false;
}

void Context::note_failed_early(std::uint64_t id, const Error& error) {
  constexpr std::size_t kMost = 1024;
  if (failed_early_.size() < kMost) failed_early_.emplace(id, error);
}

Error Context::sent_too_much(int source) const {
  return Error(ANELLO_ERR_CORRUPT, job_->describe(source) + " sent more ahead than it had credit for", source);
}

void Context::stray(EarlyFrame* frame) {
  // The communicator may have been created, or destroyed again, while the frame arrived.
  Group* const group = find_group(frame->header.communicator);
  if (group == nullptr && is_past(frame->header.communicator)) return frames_.give_back(frame);
  strays_.keep(frame);
  if (group != nullptr) deliver_strays(*group);
}

// What came for communicators that were not made in the end, or have been destroyed since.
void Context::forget_past() {
  strays_.forget([this](std::uint64_t id) { return is_past(id); });
  std::erase_if(failed_early_, [this](const auto& failed) { return is_past(failed.first); });
}

void Context::deliver_strays(Group& group) {
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

void Context::deliver_stray(Flow& flow, EarlyFrame* frame) {
  const auto kind = static_cast<FrameKind>(frame->header.kind);
  const bool counts = kind == FrameKind::step || kind == FrameKind::eager;
  if (counts && !flow.credit.of(kind).keep(frame->header.bytes)) {
    fail(*flow.group, sent_too_much(frame->source), true);
    frames_.give_back(frame);
  } else if (kind == FrameKind::step) {
    arrived_early(flow, frame);
  } else if (kind == FrameKind::eager) {
    on_eager(flow, frame);
  } else {
    transport::RemoteAddress at;
    if (has_address(frame->header)) std::memcpy(&at, frame->payload.data(), kAddressBytes);
    if (kind == FrameKind::rts) {
      on_rts(flow, frame->header, at);
    } else {
      on_note(flow, frame->header);
    }
    frames_.give_back(frame);
  }
}

void Context::arrived_early(Flow& flow, EarlyFrame* frame) {
  Operation* operation = flow.group->find(frame->header.sequence);
  if (flow.group->is_of_another_call(operation, frame->header)) {
    suspect(*flow.group, frame->header.sequence, flow.peer);
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
