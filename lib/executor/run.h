#pragma once
// Steps of one operation's schedule: what becomes ready is started, what is local is done, what arrives is applied.
// Requires the rank's lock, as does everything in the executor.
#include "executor/group.h"

#include <cstddef>
#include <cstdint>

namespace anello::executor {

// Runs an operation's schedule: from now on its messages move. Kept frames that came before it are used. first: steps
// before it are done, of a schedule without messages that was walked.
void begin(Operation& operation, std::uint32_t first = 0);
// All that a run of its plan needs, at once: a call like an earlier one allocates nothing, whichever way it goes.
void take_memory(Operation& operation);
// Steps of a schedule without messages in program order, from one on, with no more bookkeeping than that: up to a
// barrier, to the end, or until about `*most` bytes are done, which counts down. Where it came to; begin() goes on from
// there.
std::uint32_t walk(Operation& operation, std::uint32_t first, std::size_t* most);
// The same by its resolved plan, where it has one.
inline std::uint32_t advance(Operation& operation, std::uint32_t first, std::size_t* most) {
  return operation.resolved.empty() ? walk(operation, first, most) : run_resolved(operation, first);
}
// A step is done; starts what waited for it, and ends the operation with its last step.
void step_done(Operation& operation, std::uint32_t step);

// Whether the receive that a peer's next frame belongs to may be written.
bool receive_ready(const RunLane& lane);
// Whether the frame is a piece of the current receive's message; if not, the communicator has failed.
bool fits(const RunLane& lane, const transport::FrameHeader& header);
std::size_t message_bytes(const Operation& operation, std::uint32_t step);
// Where arriving bytes of the current receive can go as they are; nullptr where they must be combined or widened.
std::byte* landing(const RunLane& lane);
// Combines bytes (whole elements) of the current receive with what they belong to, by an engine that does so at once.
void apply(RunLane& lane, const std::byte* data, std::size_t bytes);
// Applies frames that were kept, as far as their receives may be written by now.
void resume_early(RunLane& lane);
// The frame that the engine had is in its place. Whether its operation is still under way.
bool arrival_done(RunLane& lane);
// The lines of an exchange are.
void lines_taken(Operation& operation);
// All bytes of a frame of the current receive are in place.
void frame_done(RunLane& lane);

schedule::Collective operation_collective(anello_kind_t kind);

// Whether the operation cannot end without the peer.
bool needs(const Operation& operation, int peer);

}  // namespace anello::executor
