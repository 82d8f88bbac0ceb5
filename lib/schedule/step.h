#pragma once
// The four words of every schedule: a *block* is one rank's share of a call, a *chunk* a piece of a block, a *slice*
// any range of one rank's buffers, a *step* one action on slices. Slices are counted in elements; nothing here
// knows a type, an address or a clock.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::schedule {

enum class Buffer : std::uint8_t {
  input,        // the caller's sendbuf; the builder rewrites it to output if the call is in place
  output,       // the caller's recvbuf
  scratch,      // elements of the call's type, Schedule::scratch of them, private to one run
  accumulator,  // elements of the type's accumulator (float32 for 16-bit floats), Schedule::accumulator of them
  staging,  // elements of the call's type, Schedule::staging of them: stored by their own rank, loaded by all of the
            // host
};
inline constexpr int kBuffers = 5;

// The owner of a slice's buffer, unless it is a peer, which is named by its rank.
inline constexpr int kOwn = -1;
inline constexpr int kEach = -2;  // every rank: as `from`, all of their slices; as `into`, the same result in all of
                                  // them

struct Slice {
  Buffer buffer = Buffer::output;
  std::size_t offset = 0;
  std::size_t count = 0;
  int owner = kOwn;  // another rank only for input and output, in calls whose Reach allows it, and for staging
  bool operator==(const Slice&) const = default;
};

enum class Kind : std::uint8_t {
  send,           // from -> peer's matching recv or recv_reduce
  recv,           // arriving -> into
  recv_reduce,    // into = from (+) arriving; reversed: arriving (+) from. into and from may be the same slice
  reduce,         // into = into (+) from; reversed: from (+) into
  copy,           // into = from; into may be every rank's
  finish,         // into = from divided by the number of ranks where the operation is AVG, rounded to the call's type
  exchange,       // into = all ranks' from, reduced in rank order and finished (reductions), or gathered in rank order
  reduce_ranks,   // into = every rank's from, reduced in rank order and finished; into may be every rank's
  reduce_staged,  // into = this rank's from and, of every other rank, its staging at `staged`: reduced in rank order,
                  // finished; also to the staging of `shown_in` at `shown`. With `among` it is a partial result of
                  // these ranks and not finished
  barrier,        // all steps before it on any rank are done before any step after it on any rank begins
};
// Types: an accumulator slice as `into` takes elements of the call's type and widens them (recv, copy), or adds them
// to what it holds (recv_reduce, reduce, never reversed, with from == into for recv_reduce). Values leave an
// accumulator only through finish; an accumulator is never sent.

inline constexpr std::size_t kNotShown = SIZE_MAX;

struct Step {
  Kind kind = Kind::copy;
  bool reversed = false;
  int peer = -1;                  // communicator rank; send, recv, recv_reduce
  Slice into;                     // unused: send, barrier
  Slice from;                     // unused: recv, barrier
  std::size_t staged = 0;         // reduce_staged
  std::size_t shown = kNotShown;  // reduce_staged: the place in staging that also gets the result,
  int shown_in = kOwn;            // this rank's, or that of a peer
  std::shared_ptr<const std::vector<int>> among =
      nullptr;  // reduce_staged: the ranks to reduce, ascending, including this one; null: all
};

// The additional place of a reduction's result, besides `into`; no elements: none.
inline Slice twin_of(const Step& step) {
  return step.shown == kNotShown ? Slice{} : Slice{Buffer::staging, step.shown, step.into.count, step.shown_in};
}

// The number of ranks in a reduction, and the i-th of them, from 0 on.
inline int operands_of(const Step& step, int size) { return step.among ? static_cast<int>(step.among->size()) : size; }
inline int operand_of(const Step& step, int i) { return step.among ? (*step.among)[static_cast<std::size_t>(i)] : i; }

inline bool has_peer(Kind kind) { return kind == Kind::send || kind == Kind::recv || kind == Kind::recv_reduce; }
inline bool has_into(Kind kind) { return kind != Kind::send && kind != Kind::barrier; }
inline bool has_from(Kind kind) { return kind != Kind::recv && kind != Kind::barrier; }
// Loads from, or stores into, another rank's memory.
inline bool touches_peers(const Step& step) {
  return step.into.owner != kOwn || step.from.owner != kOwn || step.kind == Kind::reduce_staged;
}

}  // namespace anello::schedule
