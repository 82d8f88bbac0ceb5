#pragma once
// The rank's engines, their pending steps, and the operations that have steps at peers' buffers. Requires the rank's
// lock.
#include "executor/engine.h"
#include "executor/parts.h"
#include "executor/peer_work.h"
#include "memory/copy.h"
#include "progress/source.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace anello::executor {

class Steps final : public progress::Source {
 public:
  Steps(Parts& parts, std::unique_ptr<Engine> engine);

  // Whether no step in the host's memory is ever pending. The fast paths are taken only then.
  bool is_immediate() const { return is_immediate_; }
  // No descriptor tells of the end of a step that is pending.
  int longest_sleep_ms() const override { return has_pending() ? 1 : kAsLongAsOthers; }
  long poll_again_ns() const override {
    constexpr long kOnDeviceNs = 100'000;  // most of a device's work takes as long, or less
    return device_engine_->has_pending() ? kOnDeviceNs : engine_->has_pending() ? 1'000'000 : kNotByTime;
  }
  Engine& engine() { return *engine_; }
  memory::PieceCopy& copies_to_peers() { return copies_; }

  // Gives a step to the engine. True: the step is done. Throws ReadFailure.
  bool issue(Operation& operation, Ticket::Part part, std::uint32_t index, const ResolvedStep& step);
  // Goes on with an operation's steps at peers' buffers. True: something was done.
  bool work(Operation& operation);
  // Handles steps that have ended since, and ready steps at peers' buffers. True: something moved.
  bool move() override;
  // Called before the operation ends with an error: its pending steps store nothing any more.
  void withdraw(Operation& operation);
  // Called when the operation has ended.
  void forget(Operation& operation);

  bool has_work() const { return !working_.empty(); }
  // Reserves for this many communicators, so that the first call that must wait allocates nothing.
  void reserve(std::size_t groups) { working_.reserve(groups); }

 private:
  bool has_pending() const { return engine_->has_pending() || device_engine_->has_pending(); }
  Engine& engine_of(const Operation& operation) { return operation.is_in_place() ? *device_engine_ : *engine_; }
  bool take_completed(Engine& engine);
  void end_by_device(const Completed& completed);
  void go_on(const Completed& completed);
  bool note_worked(Operation& operation, Worked worked, std::uint32_t step);

  Parts& parts_;
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<Engine> device_engine_;
  const bool is_immediate_;
  memory::PieceCopy copies_;         // into memory that other ranks load
  std::vector<Operation*> working_;  // with steps at peers' buffers
};

}  // namespace anello::executor
