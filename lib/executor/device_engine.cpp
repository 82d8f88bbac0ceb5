// The engine for buffers on devices: a reduction is a kernel, a copy the device's copy, in a queue for each device.
// They end by themselves, in their order.
#include "base/clock.h"
#include "base/text.h"
#include "device/imported.h"
#include "device/queue.h"
#include "executor/engine.h"
#include "executor/group.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include <time.h>

namespace anello::executor {
namespace {

static_assert(schedule::kMostOnDevices == kernels::cuda::kMaxOperands);
static_assert(schedule::kMostOnDevices == ResolvedStep::kAbreast);

// Kernels end within milliseconds; those of a device that hangs do not.
constexpr std::int64_t kMostWaitMs = 1000;

kernels::CudaReduction reduction_of(const Operation& operation, const ResolvedStep& step) {
  kernels::CudaReduction reduction;
  reduction.dtype = operation.dtype;
  reduction.op = operation.op;
  for (int i = 0; i < step.loads; ++i) reduction.sources.push_back(step.from[std::size_t(i)]);
  for (int i = 0; i < step.stores; ++i) reduction.destinations.push_back(step.into[std::size_t(i)]);
  reduction.count = step.count;
  reduction.ranks = operation.group->size();
  if (step.action == Action::copy_to_each) {
    reduction.dtype = ANELLO_BYTE;
    reduction.op = ANELLO_SUM;  // of one source: a copy
    reduction.count = step.bytes;
  }
  return reduction;
}

void enqueue(device::Queue& queue, const Operation& operation, const ResolvedStep& step) {
  switch (step.action) {
    case Action::copy:
    case Action::copy_past_caches:
      if (step.into[0] != step.from[0])
        queue.on_device(static_cast<std::byte*>(step.into[0]), static_cast<const std::byte*>(step.from[0]), step.bytes);
      return;
    case Action::copy_to_each:
    case Action::reduce: return queue.reduce(reduction_of(operation, step));
    default: throw Error(ANELLO_ERR_INTERNAL, "a device's schedule has a step that devices do not do");
  }
}

class DeviceEngine final : public Engine {
 public:
  bool is_immediate() const override { return false; }

  bool issue(const Ticket& ticket, const ResolvedStep& step) override {
    if (step.action == Action::nothing) return true;
    Pending pending{{ticket, {}, {}}, 0};
    Line& line = line_of(*ticket.operation);
    try {
      enqueue(line.queue, *ticket.operation, step);
      pending.mark = line.queue.mark();
    } catch (const Error& why_not) {
      pending.completed.error = why_not;
    }
    line.pending.push_back(std::move(pending));
    return false;
  }

  std::optional<Completed> take() override {
    for (auto& [device, line] : lines_) {
      if (line.pending.empty()) continue;
      Pending& first = line.pending.front();
      if (!first.completed.error && !line.queue.has_reached(first.mark) && !has_failed(line, first)) continue;
      const Completed completed = first.completed;
      line.pending.pop_front();
      return completed;
    }
    return {};
  }

  bool withdraw(const Operation& operation) override {
    bool has_ended = true;
    for (auto& [device, line] : lines_) {
      for (const Pending& each : line.pending) {
        if (each.completed.ticket.operation == &operation) has_ended = wait_for(line, each.mark) && has_ended;
      }
      std::erase_if(line.pending, [&](const Pending& each) { return each.completed.ticket.operation == &operation; });
    }
    if (!has_ended) {
      for (const std::shared_ptr<const void>& each : operation.mappings) device::Imported::keep_for_ever(each);
    }
    return has_ended;
  }

  bool has_pending() const override {
    return std::any_of(lines_.begin(), lines_.end(), [](const auto& each) { return !each.second.pending.empty(); });
  }

 private:
  struct Pending {
    Completed completed;
    std::uint32_t mark;
  };
  struct Line {
    explicit Line(device::Device& device) : queue(device, device::Queue::Order::alone) {}
    device::Queue queue;
    std::deque<Pending> pending;
    unsigned polls = 0;  // in vain
  };

  Line& line_of(const Operation& operation) {
    const int device = operation.shadow->device;
    const auto found = lines_.find(device);
    return found != lines_.end() ? found->second : lines_.try_emplace(device, device::Device::of(device)).first->second;
  }

  // A device that has failed reaches no mark any more.
  static bool has_failed(Line& line, Pending& first) {
    constexpr unsigned kPollsPerLook = 1024;
    if (++line.polls % kPollsPerLook != 0) return false;
    first.completed.error = line.queue.fault();
    return static_cast<bool>(first.completed.error);
  }

  static bool wait_for(const Line& line, std::uint32_t mark) {
    const Deadline limit = Deadline::in_ms(kMostWaitMs);
    while (!line.queue.has_reached(mark)) {
      // What has failed does nothing any more.
      if (line.queue.fault()) return true;
      if (limit.passed()) return false;
      const timespec nap{0, 20'000};
      nanosleep(&nap, nullptr);
    }
    return true;
  }

  std::map<int, Line> lines_;  // by device
};

}  // namespace

std::unique_ptr<Engine> make_device_engine() { return std::make_unique<DeviceEngine>(); }

}  // namespace anello::executor
