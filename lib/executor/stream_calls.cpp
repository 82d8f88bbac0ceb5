#include "executor/stream_calls.h"

#include "base/clock.h"
#include "base/kind.h"
#include "executor/operation_pool.h"
#include "executor/outcomes.h"
#include "executor/supervision.h"

#include <algorithm>
#include <span>
#include <utility>

namespace anello::executor {

StreamCalls::StreamCalls(Parts& parts) : parts_(parts), outcomes_(parts.outcomes) {}

StreamCalls::~StreamCalls() {
  // A stream that has not come by yet still uses the memory.
  for (const auto& line : lines_) {
    if (line->to_come == 0) continue;
    for (device::PinnedBlock& block : line->blocks) block.retire(true);
  }
}

StreamLine& StreamCalls::line_of(Group& group, device::Device& device, void* stream, bool is_captured) {
  if (!is_captured) {
    for (const auto& line : lines_) {
      const bool is_free = line->replayed == nullptr && !line->is_open;
      if (is_free && line->group == &group && line->stream == stream) return *line;
    }
  }
  lines_.push_back(std::make_unique<StreamLine>(group, device, stream));
  return *lines_.back();
}

std::byte* StreamCalls::room_in(StreamLine& line, std::size_t bytes) {
  if (line.blocks.empty() || line.blocks.back().bytes() < bytes)
    line.blocks.push_back(device::PinnedBlock::take(bytes));
  return line.blocks.back().data();
}

void StreamCalls::enqueue_reads(const Operation& operation) {
  const Shadow& shadow = *operation.shadow;
  StreamLine& line = *shadow.line;
  const kernels::cuda::Driver& driver = line.device.driver();
  {
    const device::Device::Use use(line.device);
    for (const Shadow::Part& part : shadow.reads) {
      device::check(driver, "cuMemcpyDtoHAsync",
                    driver.copy_to_host(shadow.base + part.at, reinterpret_cast<std::uint64_t>(part.device), part.bytes,
                                        line.stream));
    }
  }
  line.handover.enqueue_ready(line.stream);
}

void StreamCalls::enqueue_writes(StreamLine& line, const std::vector<Shadow::Part>& writes, const std::byte* base) {
  line.handover.enqueue_wait(line.stream);
  const kernels::cuda::Driver& driver = line.device.driver();
  const device::Device::Use use(line.device);
  for (const Shadow::Part& part : writes) {
    device::check(
        driver, "cuMemcpyHtoDAsync",
        driver.copy_to_device(reinterpret_cast<std::uint64_t>(part.device), base + part.at, part.bytes, line.stream));
  }
}

void StreamCalls::add(Operation& operation) {
  StreamLine& line = *operation.shadow->line;
  line.calls.push_back(&operation);
  ++line.to_come;
}

void StreamCalls::add_replayed(Operation& operation, const control::CallRecord& record) {
  StreamLine& line = *operation.shadow->line;
  line.replayed = &operation;
  line.record = record;
}

void StreamCalls::begin(StreamLine& line) {
  line.handover.take();
  if (line.replayed == nullptr) --line.to_come;
  Operation* call = line.replayed;
  if (call == nullptr && !line.calls.empty()) {
    call = line.calls.front();
    line.calls.pop_front();
  }
  if (line.group == nullptr || line.group->error || call == nullptr) return line.handover.release();
  if (line.replayed != nullptr) OperationPool::renew(*call);
  line.running = call;
  running_.push_back(call);
  call->shadow->state = Shadow::State::running;
  line.replayed != nullptr ? outcomes_.may_enter(*call, line.record) : outcomes_.may_start(*call);
}

void StreamCalls::end(Operation& operation) {
  StreamLine& line = *operation.shadow->line;
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
    if (line.running != nullptr || !line.handover.is_ready()) continue;
    begin(line);
    moved = true;
  }
  std::erase_if(lines_, [](const auto& line) {
    return line->group == nullptr && line->to_come == 0 && line->running == nullptr && !line->handover.is_ready();
  });
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
