#pragma once
// Runs resolved steps. The host's engine runs each step where it is issued; a device's engine takes a step and reports
// its end later. Requires the rank's lock.
#include "base/error.h"
#include "executor/resolved_step.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace anello::executor {

// Which part of its operation an issued step is.
struct Ticket {
  enum class Part : std::uint8_t {
    step,      // a whole local step; index: its place in the schedule
    piece,     // a piece of the step at peers' buffers that is under way (peer_work.h)
    arrival,   // arrived bytes of a message; index: of the lane
    lines,     // an exchange's result from the lines of the board
    delivery,  // the result that was formed beside the caller's buffer, once all steps are done
  };
  Operation* operation = nullptr;
  Part part = Part::step;
  std::uint32_t index = 0;
};

struct Completed {
  Ticket ticket;
  std::optional<ReadFailure> failure;  // set: the step is not done
  Error error;                         // of the device: likewise
};

class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Whether no step is ever pending. The fast paths are taken only then.
  virtual bool is_immediate() const = 0;
  // True: the step is done. False: it is pending, its operands stay in place, and take() reports its end. Throws
  // ReadFailure.
  virtual bool issue(const Ticket& ticket, const ResolvedStep& step) = 0;
  // A pending step that has ended. Empty if none has.
  virtual std::optional<Completed> take() = 0;
  // From here on no pending step of the operation loads or stores anything, and take() reports none. False: a device
  // hangs, and may do that still.
  virtual bool withdraw(const Operation& operation) = 0;
  // Whether anything is pending; no descriptor signals its end.
  virtual bool has_pending() const = 0;
};

// The engine for buffers in the host's memory, and that for buffers on devices (device_engine.cpp).
std::unique_ptr<Engine> make_engine();
std::unique_ptr<Engine> make_device_engine();

}  // namespace anello::executor
