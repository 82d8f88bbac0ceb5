#pragma once
// The four words of every schedule: a *block* is one rank's share of a call, a *chunk* a piece of a block, a *slice*
// any range of one of this rank's buffers, a *step* one action on slices. Slices are counted in elements; nothing here
// knows a type, an address or a clock.
#include <cstddef>
#include <cstdint>

namespace anello::schedule {

enum class Buffer : std::uint8_t {
  input,        // the caller's sendbuf; the builder rewrites it to output where the call is in place
  output,       // the caller's recvbuf
  scratch,      // elements of the call's type, Schedule::scratch of them, private to one run
  accumulator,  // elements of the type's accumulator (float32 for 16-bit floats), Schedule::accumulator of them
};

struct Slice {
  Buffer buffer = Buffer::output;
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const Slice&) const = default;
};

enum class Kind : std::uint8_t {
  send,         // from -> peer's matching recv or recv_reduce
  recv,         // arriving -> into
  recv_reduce,  // into = from (+) arriving; reversed: arriving (+) from. into and from may be the same slice
  reduce,       // into = into (+) from; reversed: from (+) into
  copy,         // into = from
  finish,       // into = from divided by the number of ranks where the operation is AVG, rounded to the call's type
  exchange,     // into = all ranks' from, folded in rank order and finished (reductions), or gathered in rank order
};
// Types: an accumulator slice as `into` takes elements of the call's type and widens them (recv, copy), or adds them
// to what it holds (recv_reduce, reduce, never reversed, with from == into for recv_reduce). What leaves an
// accumulator goes through finish; it is never sent.

struct Step {
  Kind kind = Kind::copy;
  bool reversed = false;
  int peer = -1;  // communicator rank; send, recv, recv_reduce
  Slice into;     // unused: send
  Slice from;     // unused: recv
};

}  // namespace anello::schedule
