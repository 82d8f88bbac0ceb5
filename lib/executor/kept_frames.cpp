// Context: frames that came before what they belong to, and the credit for what was used.
#include "base/log.h"
#include "executor/context.h"
#include "executor/run.h"

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

void Context::stray(EarlyFrame* frame) {
  // The communicator may have been created while the frame arrived.
  if (Group* group = find_group(frame->header.communicator)) {
    strays_.push(frame);
    stray_bytes_ += frame->header.bytes + kFrameCost;
    deliver_strays(*group);
    return;
  }
  // The peers keep within their credit for each communicator that they have made and this rank is about to make. More
  // than this is a peer that does not.
  if (stray_bytes_ + frame->header.bytes + kFrameCost > kMaxStrayBytes) {
    log::warn(rank_, "dropped a frame of ", job_->describe(frame->source), " for a communicator that is not known here");
    drop(frame);
    return;
  }
  strays_.push(frame);
  stray_bytes_ += frame->header.bytes + kFrameCost;
}

void Context::deliver_strays(Group& group) {
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
        if (kind == FrameKind::step) {
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
  flow.early.insert(frame, [](const EarlyFrame& a, const EarlyFrame& b) { return control::before(a.header.sequence, b.header.sequence); });
}

}  // namespace anello::executor
