#pragma once
// What an operation still needs of a peer. Requires the rank's lock.
#include "executor/operation.h"

namespace anello::executor {

// Whether the operation cannot end without the peer.
bool needs(const Operation& operation, int peer);

}  // namespace anello::executor
