#pragma once
// Steps that load and store peers' buffers: reductions, and copies from a peer. They are done a piece at a time, so
// that a rank that must leave a call is heard in between. Requires the rank's lock.
#include "executor/operation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace anello::executor {

enum class Worked { nothing, piece, step };
// Does up to about this many bytes of a ready step. step: *done is complete, and the caller reports it (step_done).
// nothing: no step is ready, or some rank has ended the operation with an error and bars its buffers: its report is on
// the way.
Worked work_at_peers(Operation& operation, std::size_t bytes, std::uint32_t* done);

// A piece that the engine had has ended. Returns as work_at_peers does; piece: the step goes on.
Worked piece_done(Operation& operation, const std::optional<ReadFailure>& failure, std::uint32_t* done);

inline constexpr std::int64_t kKeepOutMs = 1000;
// Keeps peers out of this rank's buffers before its call ends with an error, and waits up to kKeepOutMs for those that
// are in. Returns what the error's text must add about a peer that has not left by then.
std::string keep_peers_out(Operation& operation);

}  // namespace anello::executor
