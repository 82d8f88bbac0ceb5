#pragma once
#include "executor/group.h"
#include "kernels/default_floats.h"

namespace anello::executor {

// Of a call that is an exchange: whose lines this rank needs for it (Board::publish).
int lines_needed(const Group& group, const Operation& operation);

// Its Exchange, once plan and buffers are set.
void prepare_exchange(const Group& group, Operation& operation);

// What an exchange step makes of the board's lines, which have come as far as needed: this rank's result. Reductions go
// in rank order with one rounding.
void complete_exchange(const Group& group, Operation& operation);

// The same by its Exchange.
inline void take_lines(const Group& group, Operation& operation) {
  const Exchange& exchange = operation.exchange;
  if (exchange.reduce != nullptr) {
    // The own one where it came from: the peer is loading its line now.
    const std::byte* const peers = group.board.payload(1 - group.rank, exchange.bytes);
    const bool first = group.rank == 0;
    exchange.reduce(exchange.into, first ? exchange.from : peers, first ? peers : exchange.from, operation.count);
  } else {
    const kernels::DefaultFloats floats;
    complete_exchange(group, operation);
  }
}

}  // namespace anello::executor
