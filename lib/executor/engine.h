#pragma once
// What runs resolved steps. The host's engine runs each where it is issued; a device's takes it, and tells later that
// it is done. Requires the rank's lock.
#include "executor/resolved_step.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace anello::executor {

// What an issued step is of its operation.
struct Ticket {
  enum class Part : std::uint8_t {
    step,      // a whole local step; index: its place in the schedule
    piece,     // a piece of the step at peers' buffers that is under way (peer_work.h)
    arrival,   // what has arrived of a message; index: of the lane
    lines,     // an exchange's result from the lines of the board
    delivery,  // the result that was formed beside the caller's buffer, once all steps are done
  };
  Operation* operation = nullptr;
  Part part = Part::step;
  std::uint32_t index = 0;
};

struct Completed {
  Ticket ticket;
  std::optional<ReadFailure> failure;  // it is not done
};

class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Whether no step is ever pending. Only then are the fast paths taken.
  virtual bool is_immediate() const = 0;
  // True: the step is done. False: it is pending, its operands stay where they are, and take() tells of its end.
  // Throws ReadFailure.
  virtual bool issue(const Ticket& ticket, const ResolvedStep& step) = 0;
  // One that was pending and has ended. Empty: none has.
  virtual std::optional<Completed> take() = 0;
  // From here on no pending step of the operation loads or stores anything, and take() tells of none.
  virtual void withdraw(const Operation& operation) = 0;
  // Whether anything is pending: no descriptor tells of its end.
  virtual bool has_pending() const = 0;
};

// The engine of a rank whose buffers are the host's memory.
std::unique_ptr<Engine> make_engine();

}  // namespace anello::executor
