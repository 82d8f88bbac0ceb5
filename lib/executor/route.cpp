#include "executor/route.h"

#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "executor/supervision.h"
#include "messaging/early_frame.h"

namespace anello::executor {

using transport::FrameHeader;

// Half of a frame may be here.
Route::~Route() {
  if (arriving_.frame != nullptr) parts_.frames.give_back(arriving_.frame);
}

void Route::open(std::unique_ptr<transport::Endpoint> endpoint) {
  endpoint_ = std::move(endpoint);
  state_ = State::open;
}

void Route::list(Flow& flow) {
  if (flow.listed) return;
  flow.listed = true;
  flows_.push(&flow);
}

bool Route::drained() {
  if (state_ != State::open) return true;
  if (has_work()) push();
  return endpoint_->failure() != nullptr || (!has_work() && endpoint_->flush());
}

// A second call to the endpoint would pass over an empty frame. A frame whose rest will not come is no frame.
const FrameHeader* Route::incoming() {
  const bool cut_off = endpoint_->failure() != nullptr && endpoint_->remaining() > 0;
  if (incoming_ == nullptr || cut_off) incoming_ = endpoint_->incoming();
  return incoming_;
}

bool Route::has_arrivals() {
  return incoming() != nullptr && (endpoint_->remaining() == 0 || !endpoint_->view().empty());
}

void Route::break_off() {
  if (state_ != State::open) return;
  // The leaving frame may have been the last that the peer took.
  if (leaving_.kind != Leaving::Kind::none && endpoint_->send(leaving_.header, leaving_.payload)) sent();
  state_ = State::broken;
  broken_since_ns_ = now_ns();
  leaving_ = {};
  if (const Error* const cause = endpoint_->failure(); cause != nullptr && cause->code() == ANELLO_ERR_CORRUPT)
    broken_in_ = arriving_for();
  if (arriving_.frame != nullptr) parts_.frames.give_back(arriving_.frame);
  arriving_ = {};
  parts_.supervision.lane_broke(*this);
}

// Names the owner of the arriving frame, and the frame's place there.
std::string Route::arriving_for() const {
  switch (arriving_.mode) {
    case Arriving::Mode::step:
      return text("operation ", arriving_.operation->sequence, ", ", kind_name(arriving_.operation->kind),
                  ", behind byte ", arriving_.lane->received, " of its message");
    case Arriving::Mode::message:
      return text("a message with tag ", arriving_.operation->status.tag, ", behind byte ", arriving_.operation->moved);
    case Arriving::Mode::keep:
      return text("operation ", arriving_.frame->header.sequence, ", behind byte ", arriving_.frame->filled,
                  " of a frame that came early");
    case Arriving::Mode::address: return "the request to send a message";
    case Arriving::Mode::discard:
    case Arriving::Mode::none: return {};
  }
  return {};
}

void Route::forget(Group& group) {
  for (Flow& flow : group.flows) {
    if (flow.route == this && flow.listed) {
      flows_.remove(&flow);
      flow.listed = false;
    }
  }
  // A note, such as the answer to a peer's RTS, is not part of the operations that end here.
  if (leaving_.kind != Leaving::Kind::note) forget_leaving(group);
  if (arriving_.flow != nullptr && arriving_.flow->group == &group) {
    if (arriving_.frame != nullptr) parts_.frames.give_back(arriving_.frame);
    arriving_ = {};
    arriving_.mode = Arriving::Mode::discard;
  }
}

void Route::forget_notes(Group& group) {
  forget(group);
  forget_leaving(group);
}

void Route::forget_leaving(const Group& group) {
  if (leaving_.kind == Leaving::Kind::none || leaving_.flow->group != &group) return;
  if (endpoint_ != nullptr) endpoint_->detach();
  leaving_ = {};
}

}  // namespace anello::executor
