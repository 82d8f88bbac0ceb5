#pragma once
// The steps of one operation's schedule: starts ready steps, does local steps, and applies arriving frames. Requires
// the rank's lock, as does everything in the executor.
#include "executor/group.h"

#include <cstddef>
#include <cstdint>

namespace anello::executor {

// Runs an operation's schedule: from now on its messages move, and frames kept for it are used. first: steps before it
// are done, if the schedule has no messages and was walked.
void begin(Operation& operation, std::uint32_t first = 0);
// Allocates all memory that a run of its plan needs: a repeated call allocates nothing, whichever path it takes.
void take_memory(Operation& operation);
// Does steps of a schedule without messages in program order from `first` on, without other bookkeeping: up to a
// barrier, to the end, or until about `*most` bytes are done, which counts down. Returns the next step; begin() goes on
// there.
std::uint32_t walk(Operation& operation, std::uint32_t first, std::size_t* most);
// Does the same by the operation's resolved plan, if it has one.
inline std::uint32_t advance(Operation& operation, std::uint32_t first, std::size_t* most) {
  return operation.resolved.empty() ? walk(operation, first, most) : run_resolved(operation, first);
}
// Pieces have come from the operation's device: starts the steps that waited for them alone.
void pieces_came(Operation& operation);
// A step is done: starts the steps that waited for it, and ends the operation after its last step.
void step_done(Operation& operation, std::uint32_t step);

// Lists the lane to send, if its next message may leave.
void queue_sends(RunLane& lane);
// The lane's next message is another one.
void pass_send(RunLane& lane);
// Whether the receive that a peer's next frame belongs to may be written.
bool receive_ready(const RunLane& lane);
// Whether the frame is a piece of the current receive's message; if not, the communicator has failed.
bool fits(const RunLane& lane, const transport::FrameHeader& header);
std::size_t message_bytes(const Operation& operation, std::uint32_t step);
// Where arriving bytes of the current receive can go unchanged; nullptr if they must be combined or widened.
std::byte* landing(const RunLane& lane);
// Counts bytes of the current receive that are in place.
void count_received(RunLane& lane, std::size_t bytes);
// Combines whole elements of the current receive with their operands, by an engine that does so at once.
void apply(RunLane& lane, const std::byte* data, std::size_t bytes);
// Applies kept frames, as far as their receives may be written by now.
void resume_early(RunLane& lane);
// The frame that the engine had is in place. Returns whether its operation is still in flight.
bool arrival_done(RunLane& lane);
// The engine has taken the lines of an exchange.
void lines_taken(Operation& operation);
// All bytes of a frame of the current receive are in place.
void frame_done(RunLane& lane);

}  // namespace anello::executor
