// Context: frames that came before what they belong to, and the credit for what was used.
#include "base/log.h"
#include "base/text.h"
#include "executor/context.h"
#include "executor/run.h"

#include <algorithm>
#include <limits>

namespace anello::executor {

EarlyFrame* Context::keep(const transport::FrameHeader& header, int source) {
  std::unique_ptr<EarlyFrame> frame;
  if (free_frames_.empty()) {
    frame = std::make_unique<EarlyFrame>();
  } else {
    frame.reset(free_frames_.back());
    free_frames_.pop_back();
    free_frame_bytes_ -= frame->payload.capacity();
  }
  frame->header = header;
  frame->filled = 0;
  frame->source = source;
  frame->next = nullptr;
  frame->payload.resize(header.bytes);
  return frame.release();
}

EarlyFrame* Context::keep_for(Group& group, const transport::FrameHeader& header, int source) {
  EarlyFrame* frame = nullptr;
  with_memory(group, [&] { frame = keep(header, source); });
  return frame;
}

void Context::drop(EarlyFrame* frame) {
  constexpr std::size_t kKeep = 4 * 1024 * 1024;
  if (free_frame_bytes_ + frame->payload.capacity() > kKeep) {
    delete frame;
    return;
  }
  free_frame_bytes_ += frame->payload.capacity();
  free_frames_.push_back(frame);
}

void Context::drop_all(EarlyFrames& frames) {
  while (EarlyFrame* frame = frames.pop()) drop(frame);
}

void Context::consumed(Flow& flow, std::size_t bytes) {
  flow.owed += bytes + kFrameCost;
  if (flow.owes_much()) want_to_send(flow);
}

// A hole in what a peer has sent would be taken for data later: where a frame cannot be kept, its communicator fails
// once it is made.
bool Context::keeps_stray(const transport::FrameHeader& header, int source) {
  const std::uint64_t id = header.communicator;
  if (failed_early_.contains(id)) return false;
  const auto refuse = [&](const Error& error) {
    log::warn(rank_, error.text());
    constexpr std::size_t kMost = 1024;
    if (failed_early_.size() < kMost) failed_early_.emplace(id, error);
    return false;
  };
  const std::size_t cost = header.bytes + kFrameCost;
  const std::size_t most = (kCredit + kSmallCredit) * std::max(kLeastStrayPeers, std::size_t(job_->size()));
  if (stray_bytes_ + cost > most) {
    return refuse(Error(ANELLO_ERR_RESOURCE,
                        text("ranks have sent more than ", most, " bytes for communicators that this rank has yet to ",
                             "create, the last one ", job_->describe(source)),
                        source));
  }
  Ahead& ahead = ahead_[{id, source}];
  const auto kind = static_cast<FrameKind>(header.kind);
  bool within = false;
  if (kind == FrameKind::step) {
    within = (ahead.kept += cost) <= kCredit;
  } else if (kind == FrameKind::eager) {
    within = (ahead.small_kept += cost) <= kSmallCredit;
  } else {
    within = header.bytes == 0 && ++ahead.notes <= kMaxUnexpected;
  }
  if (within) return true;
  return refuse(Error(ANELLO_ERR_CORRUPT, job_->describe(source) + " sent more ahead than it had credit for", source));
}

void Context::stray(EarlyFrame* frame) {
  // The communicator may have been created, or destroyed again, while the frame arrived.
  Group* const group = find_group(frame->header.communicator);
  if (group == nullptr && is_past(frame->header.communicator)) return drop(frame);
  strays_.push(frame);
  stray_bytes_ += frame->header.bytes + kFrameCost;
  if (group != nullptr) deliver_strays(*group);
}

// What came for communicators that were not made in the end, or have been destroyed since.
void Context::forget_past() {
  for (EarlyFrame* frame = strays_.front(); frame != nullptr;) {
    EarlyFrame* const next = EarlyFrames::after(frame);
    if (is_past(frame->header.communicator)) {
      strays_.remove(frame);
      stray_bytes_ -= frame->header.bytes + kFrameCost;
      drop(frame);
    }
    frame = next;
  }
  std::erase_if(failed_early_, [this](const auto& failed) { return is_past(failed.first); });
  std::erase_if(ahead_, [this](const auto& ahead) { return is_past(ahead.first.first); });
}

void Context::deliver_strays(Group& group) {
  ahead_.erase(ahead_.lower_bound({group.id, -1}), ahead_.upper_bound({group.id, std::numeric_limits<int>::max()}));
  for (EarlyFrame* frame = strays_.front(); frame != nullptr;) {
    EarlyFrame* const next = EarlyFrames::after(frame);
    if (frame->header.communicator == group.id) {
      strays_.remove(frame);
      stray_bytes_ -= frame->header.bytes + kFrameCost;
      const int peer = group.rank_of_world(frame->source);
      const auto kind = static_cast<FrameKind>(frame->header.kind);
      if (peer < 0 || group.error) {
        drop(frame);
      } else {
        Flow& flow = group.flows.to(peer);
        const bool counts = kind == FrameKind::step || kind == FrameKind::eager;
        if (counts && !flow.keep(kind == FrameKind::eager, frame->header.bytes)) {
          fail(group,
               Error(ANELLO_ERR_CORRUPT, job_->describe(frame->source) + " sent more ahead than it had credit for",
                     frame->source),
               true);
          drop(frame);
        } else if (kind == FrameKind::step) {
          arrived_early(flow, frame);
        } else if (kind == FrameKind::eager) {
          on_eager(flow, frame);
        } else {
          on_note(flow, frame->header);
          drop(frame);
        }
      }
    }
    frame = next;
  }
}

void Context::arrived_early(Flow& flow, EarlyFrame* frame) {
  Operation* operation = flow.group->find(frame->header.sequence);
  if (flow.group->is_of_another_call(operation, frame->header)) {
    suspect(*flow.group, frame->header.sequence, flow.peer);
    drop(frame);
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
