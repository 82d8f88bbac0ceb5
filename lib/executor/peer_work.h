#pragma once
// Steps that load and store peers' buffers: reductions, and copies from a peer. Done a piece at a time, so that whoever
// must get out of a call is heard in between. Requires the rank's lock.
#include "executor/operation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace anello::executor {

enum class Worked { nothing, piece, step };
// Up to about so many bytes of what is ready. step: *done is complete, and to be told so (step_done). nothing: there is
// nothing to do, or some rank has ended the operation with an error and may not be touched any more: its word is on the
// way.
Worked work_at_peers(Operation& operation, std::size_t bytes, std::uint32_t* done);

// A piece that the engine had has ended. As work_at_peers; piece: the step goes on.
Worked piece_done(Operation& operation, const std::optional<ReadFailure>& failure, std::uint32_t* done);

inline constexpr std::int64_t kKeepOutMs = 1000;
// This rank's call is about to end with an error while others may be at its buffers: keeps them out, waiting for those
// that are, up to kKeepOutMs. What is to be added to the error's text of one that has not gone by then.
std::string keep_peers_out(Operation& operation);

}  // namespace anello::executor
