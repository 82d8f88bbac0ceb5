#pragma once
// One call under way: what was asked, how far it is, how it ended. Pooled by the context and reused with the memory it
// has, so that a call like an earlier one allocates nothing. Guarded by the rank's lock, but for `done`.
#include "base/custom_op.h"
#include "base/error.h"
#include "base/label.h"
#include "messaging/early_frame.h"
#include "messaging/frame.h"
#include "messaging/matching.h"
#include "messaging/rendezvous.h"
#include "base/fifo.h"
#include "executor/peer_buffers.h"
#include "executor/plan.h"
#include "executor/resolved_plan.h"
#include "executor/user_function.h"
#include "kernels/reduce.h"
#include "memory/region.h"

#include <anello/anello.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace anello::executor {

using namespace messaging;  // its frames are what the executor moves

class Group;
struct Flow;
struct Operation;

// One operation and one peer: the two sequences of messages between them.
struct RunLane {
  Operation* operation = nullptr;
  Flow* flow = nullptr;
  const schedule::Lane* plan = nullptr;
  std::uint32_t next_send = 0;     // index into plan->sends
  std::uint32_t next_receive = 0;  // index into plan->receives
  std::size_t sent = 0;            // bytes of the current message
  std::size_t received = 0;
  bool queued = false;  // in flow->steps
  RunLane* next = nullptr;
  EarlyFrames early;
  EarlyFrame* applied = nullptr;  // the engine is at it

  bool done() const { return next_send == plan->sends.size() && next_receive == plan->receives.size(); }
};

// How far a schedule is.
struct Run {
  std::vector<std::uint32_t> waits;  // per step: unfinished steps before it
  std::vector<std::uint32_t> ready;  // stack of steps to start
  std::vector<RunLane> lanes;
  std::vector<std::byte> scratch;
  std::vector<std::byte> accumulator;
  // What all of these are large enough for (take_memory).
  std::shared_ptr<const Plan> serves;
  std::size_t served_element_bytes = 0;
  const kernels::Reducer* served_reducer = nullptr;
  std::uint32_t unfinished = 0;
  std::uint32_t pending = 0;  // steps that the engine has
  bool starting = false;      // the ready stack is being worked off: who pushes need not start it
};

// A result that is formed beside the caller's buffer, and rounded into it at the end.
struct Staged {
  std::vector<std::byte> memory;
  std::byte* result = nullptr;  // the caller's; null: nothing to do
  std::size_t count = 0;
  const kernels::Reducer* rounding = nullptr;

  void deliver() {
    if (result != nullptr) rounding->finish(std::exchange(result, nullptr), memory.data(), count, 1);
  }
};

// An exchange with its buffers, as the fast path takes it. Worked out when they change (prepare_exchange).
struct Exchange {
  const std::byte* from = nullptr;  // what this rank's line carries
  std::size_t bytes = 0;
  int needs = 0;  // whose lines (Board::publish)
  std::byte* into = nullptr;
  // Of two ranks' lines, what becomes of both where one reduce is all; null: complete_exchange.
  void (*reduce)(void* into, const void* left, const void* right, std::size_t count) = nullptr;
};

// Steps at peers' buffers, done a piece at a time.
struct PeerWork {
  static constexpr std::uint32_t kNoStep = ~std::uint32_t{0};
  std::uint32_t step = kNoStep;     // under way
  std::size_t done = 0;             // elements of it
  std::size_t pending = 0;          // of it, which the engine has
  std::vector<std::uint32_t> next;  // ready, not begun
  int without = -1;                 // whose process had ended when its memory was to be read
};

struct Operation {
  enum class State : std::uint8_t {
    idle,
    queued,    // waits for its place in the window
    entering,  // its ranks announce their buffers
    active,
    done
  };

  Group* group = nullptr;
  State state = State::idle;
  std::atomic<bool> done{false};  // what those outside the lock look at
  anello_kind_t kind = ANELLO_BARRIER;
  anello_dtype_t dtype = ANELLO_UINT8;
  anello_op_t op = ANELLO_SUM;
  int peer = -1;  // root, destination or source, in the group
  int tag = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  const kernels::Reducer* reducer = nullptr;
  std::shared_ptr<const CustomOp> custom;  // of the caller's own operation
  bool function_threw = false;             // the caller's own
  Staged staged;
  std::int64_t timeout_ns = 0;
  Label label;

  Error error;
  anello_status_t status{-1, -1, 0};

  // Collectives
  std::uint32_t sequence = 0;
  std::uint64_t digest = 0;
  std::shared_ptr<const Plan> plan;
  Run run;

  // On the board
  Round round = Round::none;  // that its next line is of
  bool published = false;     // this rank's line for it is there
  Exchange exchange;          // of the fast path
  std::uint32_t barrier_step = 0;

  // Calls that may go over peers' memory: the announcements choose `plan` of these.
  std::shared_ptr<const Plans> plans;
  bool input_inside = false;  // in the output, from there on:
  std::size_t input_at = 0;   // bytes
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  std::vector<Announcement> announced;  // by rank
  bool announces_as_before = false;     // this rank, what it had in there
  LineKind entry = LineKind::buffers;   // of this rank's line of the round `announce`
  bool entry_known = false;             // what it was holds for these buffers, while entry_version is this process's
  std::uint64_t entry_version = 0;
  bool stays_away = false;                            // its buffers are rather not read where they lie (read_policy.h)
  bool judged_slow = false;                           // by this rank, which keeps to that
  std::vector<PeerBuffers> buffers;                   // by rank, where the chosen schedule needs them
  std::vector<std::shared_ptr<const void>> mappings;  // that those are in
  ResolvedPlan resolved;
  PeerWork peer_work;
  schedule::Reach reach = schedule::Reach::none;  // by the announcements
  bool agreed = false;                            // all ranks are known to have it
  bool staged_early = false;                      // its first round, before the lines have come
  std::byte* const* staging = nullptr;            // by rank, where the chosen schedule needs it,
  std::size_t staging_from = 0;                   // and the byte of it that is its first
  bool exposed = false;                           // peers may be at this rank's buffers

  // The buffers are, or may be, other ones.
  void forget_places() {
    entry_known = false;
    resolved.forget_addresses();
  }
  // Where this rank's input really is.
  const std::byte* own_input() const { return input_inside ? output + input_at : input; }
  // Whether it is its turn there, and it waits for something.
  bool is_on_board() const;
  bool announces() const { return plans != nullptr && plans->announces(); }

  // Messages
  std::uint32_t number = 0;   // this side's name for it
  std::uint32_t partner = 0;  // the other side's
  std::size_t bytes = 0;      // to move in all
  std::size_t moved = 0;
  transport::RemoteAddress got_from;  // of a receive that gets its message
  bool claims = false;                // a probe: takes the message out
  std::uint32_t claim = 0;            // the message that a matched probe took out, or that this receive takes

  std::uint64_t movement = 0;  // grows with every piece moved; a wait compares it to see progress
  std::uint64_t seen_movement = 0;
  std::int64_t asked_ns = 0;          // when its deadline had passed and the others were asked where they are
  std::int64_t last_progress_ns = 0;  // 0: nobody has looked at the clock for it yet
  Operation* next = nullptr;          // in the one list it is in: window, message queues, free list
  Operation* next_on_board = nullptr;

  // Of a receive or probe.
  messaging::Pattern pattern() const { return {peer, tag}; }

  // into[i] = left[i] op right[i]
  void combine(std::byte* into, const std::byte* left, const std::byte* right, std::size_t elements) {
    if (custom == nullptr) {
      reducer->reduce(into, left, right, elements);
    } else if (!call_user_function(*custom, into, left, right, elements, dtype)) {
      function_threw = true;
    }
  }

  std::byte* at(const schedule::Slice& slice) {
    using schedule::Buffer;
    if (slice.owner >= 0)
      return slice.buffer == Buffer::staging ? at_staging(slice.owner, slice.offset) : at_peer(slice, slice.owner);
    if (slice.buffer == Buffer::staging) return at_staging(own_rank(), slice.offset);
    switch (slice.buffer) {
      case Buffer::input: return const_cast<std::byte*>(input) + slice.offset * element_bytes;
      case Buffer::output: return output + slice.offset * element_bytes;
      case Buffer::scratch: return run.scratch.data() + slice.offset * element_bytes;
      case Buffer::accumulator: return run.accumulator.data() + slice.offset * reducer->accumulator_bytes;
      case Buffer::staging: break;
    }
    return nullptr;
  }
  std::byte* at_staging(int owner, std::size_t offset) const {
    return staging[owner] + staging_from + offset * element_bytes;
  }
  int own_rank() const;
  const PeerBuffer& buffer_of(const schedule::Slice& slice, int owner) const {
    const PeerBuffers& its = buffers[std::size_t(owner)];
    return slice.buffer == schedule::Buffer::input ? its.input : its.output;
  }
  // A slice of one rank's caller's buffers: its address here, or in the process that buffer_of names.
  std::byte* at_peer(const schedule::Slice& slice, int owner) const {
    return buffer_of(slice, owner).at + slice.offset * element_bytes;
  }
};

using OperationFifo = Fifo<Operation, &Operation::next>;

// What people call it: "operation 3, allreduce(...)".
std::string call_text(const Operation& operation);

}  // namespace anello::executor
