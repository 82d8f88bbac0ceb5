#include "executor/stream_calls.h"

#include "base/clock.h"
#include "base/kind.h"
#include "device/waiting_streams.h"
#include "executor/operation_pool.h"
#include "executor/outcomes.h"
#include "executor/shadows.h"
#include "executor/supervision.h"

#include <algorithm>
#include <utility>

namespace anello::executor {

StreamCalls::StreamCalls(Parts& parts) : parts_(parts), outcomes_(parts.outcomes) {}

StreamLine::~StreamLine() {
  const bool is_used = is_copying || !handover.has_passed();
  if (!is_used && !is_spoiled) return;
  for (device::PinnedBlock& block : blocks) block.retire(is_used);
}

bool StreamLine::is_over() const {
  if (is_open || running != nullptr) return false;
  if (is_of_graph && replayed == nullptr && group != nullptr) return true;  // its call could not be prepared
  return group == nullptr && to_come == 0 && handover.has_passed();
}

StreamLine& StreamCalls::open_line(Group& group, device::Device& device, void* stream, bool is_captured) {
  StreamLine* line = nullptr;
  // CU_STREAM_PER_THREAD is another stream in each thread.
  const bool is_of_thread = stream == reinterpret_cast<void*>(2);
  if (!is_captured) {
    for (const auto& each : lines_) {
      const bool is_free =
          !each->is_of_graph && !each->is_open && !(is_of_thread && each->thread != std::this_thread::get_id());
      // The null stream is another one on each device.
      if (is_free && each->group == &group && each->stream == stream && &each->device == &device) line = each.get();
    }
  }
  if (line == nullptr) {
    using Use = device::Handover::Use;
    lines_.push_back(std::make_unique<StreamLine>(group, device, stream, is_captured ? Use::in_graph : Use::in_stream));
    line = lines_.back().get();
  }
  line->is_open = true;
  return *line;
}

std::byte* StreamCalls::room_in(StreamLine& line, std::size_t bytes) {
  if (line.blocks.empty() || line.blocks.back().bytes() < bytes)
    line.blocks.push_back(device::PinnedBlock::take(bytes));
  return line.blocks.back().data();
}

void StreamCalls::enqueue_come(StreamLine& line) {
  const device::WaitingStreams::Enqueuing enqueuing;
  line.handover.enqueue_come(line.stream);
}

void StreamCalls::enqueue_wait(StreamLine& line) {
  const device::WaitingStreams::Enqueuing enqueuing;
  Error wrong;
  try {
    line.handover.enqueue_wait(line.stream);
  } catch (const Error& why_not) {
    wrong = why_not;
  }
  line.handover.enqueue_passed(line.stream);
  if (wrong) throw wrong;
}

void StreamCalls::add(Operation& operation) {
  StreamLine& line = *operation.shadow->line;
  line.calls.push_back(&operation);
  ++line.to_come;
}

void StreamCalls::add_replayed(Operation& operation, const recorder::CallRecord& record) {
  StreamLine& line = *operation.shadow->line;
  line.replayed = &operation;
  line.replayed_peer = operation.peer;
  line.record = record;
}

void StreamCalls::take_back(StreamLine& line) {
  if (!line.is_of_graph) --line.to_come;
}

void StreamCalls::begin(StreamLine& line) {
  line.handover.take();
  if (!line.is_of_graph) --line.to_come;
  Operation* call = line.replayed;
  if (call == nullptr && !line.calls.empty()) {
    call = line.calls.front();
    line.calls.pop_front();
  }
  if (line.group == nullptr || line.group->error || call == nullptr) return line.handover.release();
  if (line.replayed != nullptr) {
    OperationPool::renew(*call);
    call->peer = line.replayed_peer;  // a receive from any rank has noted whose message it took
  }
  if (call->shadow->is_offer()) call->shadow->offer_again(*call);
  line.running = call;
  running_.push_back(call);
  Group& group = *line.group;
  const bool waits = parts_.shadows.come_in_stream(*call);
  if (line.replayed != nullptr) {
    outcomes_.may_enter(*call, line.record);
  } else if (!is_message(call->kind) || !parts_.shadows.holds_up(*call)) {
    outcomes_.may_start(*call);
  }
  if (!waits || line.running != call) return;
  try {
    parts_.shadows.fetch_from_stream(*call);
  } catch (const Error& of_device) {
    outcomes_.fail(group, parts_.job.own_error(of_device), true);
  }
}

void StreamCalls::end(Operation& operation) {
  StreamLine& line = *operation.shadow->line;
  if (operation.error) line.is_spoiled = true;
  std::erase(running_, &operation);
  std::erase(line.calls, &operation);  // one that has failed before its stream came to it
  if (line.running == &operation) {
    line.running = nullptr;
    line.handover.release();
  }
  if (line.replayed != &operation) ended_.push_back(&operation);
}

void StreamCalls::end_messages(Group& group, const Error& error) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i]->group != &group) continue;
    const std::deque<Operation*> calls = lines_[i]->calls;
    for (Operation* const call : calls) {
      if (is_message(call->kind)) outcomes_.finish(*call, error);
    }
  }
}

Operation* StreamCalls::take_ended() {
  if (ended_.empty()) return nullptr;
  Operation* const operation = ended_.front();
  ended_.pop_front();
  return operation;
}

void StreamCalls::forget(Group& group) {
  for (const auto& line : lines_) {
    if (line->group != &group) continue;
    line->group = nullptr;
    line->calls.clear();
    if (line->replayed != nullptr) ended_.push_back(std::exchange(line->replayed, nullptr));
  }
}

bool StreamCalls::is_awaited() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const auto& line) { return line->to_come > 0 || line->replayed != nullptr; });
}

long StreamCalls::poll_again_ns() const {
  constexpr long kSoonNs = 20'000, kIdleNs = 1'000'000;
  if (lines_.empty()) return kNotByTime;
  const bool is_busy = !running_.empty() ||
                       std::any_of(lines_.begin(), lines_.end(), [](const auto& line) { return line->to_come > 0; });
  return is_busy ? kSoonNs : kIdleNs;
}

bool StreamCalls::move() {
  bool moved = false;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    StreamLine& line = *lines_[i];
    if (line.running != nullptr || !line.handover.has_come()) continue;
    begin(line);
    moved = true;
  }
  std::erase_if(lines_, [](const auto& line) { return line->is_over(); });
  if (running_.empty()) return moved;
  // No thread waits for them, and so looks at their deadlines.
  constexpr std::int64_t kTickNs = 20 * kMs;
  const std::int64_t now = now_ns();
  if (now >= next_tick_ns_) {
    next_tick_ns_ = now + kTickNs;
    const std::vector<Operation*> watched = running_;
    parts_.supervision.tick(watched);
  }
  return moved;
}

}  // namespace anello::executor
