#pragma once
#include "executor/group.h"
#include "kernels/default_floats.h"

namespace anello::executor {

// Whose lines this rank needs for a call that is an exchange (Board::publish).
int lines_needed(const Group& group, const Operation& operation);

// Fills the operation's Exchange, once its plan and buffers are set.
void prepare_exchange(const Group& group, Operation& operation);

// Forms this rank's result from the board's lines, which have come as far as needed. Reductions go in rank order with
// one rounding.
void complete_exchange(const Group& group, Operation& operation);

// Like complete_exchange, by the operation's Exchange.
inline void take_lines(const Group& group, Operation& operation) {
  const Exchange& exchange = operation.exchange;
  if (exchange.reduce != nullptr) {
    // This rank's payload is taken from its source, since the peer is loading its line now.
    const std::byte* const peers = group.board.payload(1 - group.rank, exchange.bytes);
    const bool first = group.rank == 0;
    exchange.reduce(exchange.into, first ? exchange.from : peers, first ? peers : exchange.from, operation.count);
  } else {
    const kernels::DefaultFloats floats;
    complete_exchange(group, operation);
  }
}

}  // namespace anello::executor
