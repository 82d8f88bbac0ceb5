#include "messaging/early_frame.h"

#include <memory>

namespace anello::messaging {

FramePool::~FramePool() {
  for (EarlyFrame* frame : free_) delete frame;
}

EarlyFrame* FramePool::take(const transport::FrameHeader& header, int source) {
  std::unique_ptr<EarlyFrame> frame;
  if (free_.empty()) {
    frame = std::make_unique<EarlyFrame>();
  } else {
    frame.reset(free_.back());
    free_.pop_back();
    free_bytes_ -= frame->payload.capacity();
  }
  frame->header = header;
  frame->filled = 0;
  frame->source = source;
  frame->next = nullptr;
  frame->payload.resize(header.bytes);
  return frame.release();
}

void FramePool::give_back(EarlyFrame* frame) {
  constexpr std::size_t kKeep = 4 * 1024 * 1024;
  if (free_bytes_ + frame->payload.capacity() > kKeep) {
    delete frame;
    return;
  }
  free_bytes_ += frame->payload.capacity();
  free_.push_back(frame);
}

void FramePool::give_back_all(EarlyFrames& frames) {
  while (EarlyFrame* frame = frames.pop()) give_back(frame);
}

}  // namespace anello::messaging
