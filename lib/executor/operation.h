#pragma once
// One call in flight: its arguments, its progress, and its result. The context pools operations and reuses them with
// their memory, so that a call like an earlier one allocates nothing. Guarded by the rank's lock, except for `done`.
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
#include "executor/shadow.h"
#include "executor/user_function.h"
#include "kernels/reduce.h"
#include "memory/region.h"
#include "memory/workspace.h"
#include "recorder/message_log.h"

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
struct StepGet;

// One operation and one peer: the two sequences of messages between them.
struct RunLane {
  Operation* operation = nullptr;
  Flow* flow = nullptr;
  const schedule::Lane* plan = nullptr;
  std::uint32_t next_send = 0;     // index into plan->sends
  std::uint32_t next_receive = 0;  // index into plan->receives
  std::size_t sent = 0;            // bytes of the current message
  std::size_t received = 0;
  std::uint32_t offered = 0;  // sends before next_send whose step_rts has not been answered
  bool by_frames = false;     // its sends go in frames from now on: the receiver cannot get them
  bool queued = false;        // in flow->steps
  RunLane* next = nullptr;
  EarlyFrames early;
  EarlyFrame* applied = nullptr;  // the engine is working on it
  StepGet* get = nullptr;         // the current receive's message is being got
  bool drops_requests = false;    // this rank has had the peer send in frames

  bool is_busy() const { return applied != nullptr || get != nullptr; }
};

// The progress of a schedule.
struct Run {
  std::vector<std::uint32_t> waits;  // per step: unfinished steps before it
  std::vector<std::uint32_t> ready;  // stack of steps to start
  std::vector<RunLane> lanes;
  memory::Workspace scratch;
  std::vector<std::byte> accumulator;
  // All of these are large enough for this plan (take_memory).
  std::shared_ptr<const Plan> serves;
  std::size_t served_element_bytes = 0;
  const kernels::Reducer* served_reducer = nullptr;
  std::uint32_t unfinished = 0;
  std::uint32_t pending = 0;  // steps at the engine
  bool starting = false;      // the ready stack is being emptied: a step pushed meanwhile needs no start
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

// An exchange with its buffers, as the fast path takes it. prepare_exchange forms it anew when they change.
struct Exchange {
  const std::byte* from = nullptr;  // the contents of this rank's line
  std::size_t bytes = 0;
  int needs = 0;  // whose lines it needs (Board::publish)
  std::byte* into = nullptr;
  // Combines both lines where two ranks need only one reduce; null: complete_exchange.
  void (*reduce)(void* into, const void* left, const void* right, std::size_t count) = nullptr;
};

// Steps at peers' buffers, which are done a piece at a time.
struct PeerWork {
  static constexpr std::uint32_t kNoStep = ~std::uint32_t{0};
  std::uint32_t step = kNoStep;     // in progress
  std::size_t done = 0;             // finished elements of the step
  std::size_t pending = 0;          // elements of the step at the engine
  std::vector<std::uint32_t> next;  // ready steps that have not begun
  int without = -1;                 // the peer whose process had ended when its memory was to be read
};

// Memory that peers on other hosts may get parts of; kept: as long as this lives.
struct Lent {
  transport::RemoteMemory* memory = nullptr;
  int peer = -1;
  transport::RemoteAddress at;
  std::shared_ptr<const void> kept;
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
  std::atomic<bool> done{false};  // what threads outside the lock read
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
  std::shared_ptr<const CustomOp> custom;  // the caller's own operation
  bool function_threw = false;             // the caller's function threw
  Staged staged;
  std::unique_ptr<Shadow> shadow;  // of a call with buffers on a device
  std::int64_t timeout_ns = 0;
  Label label;

  Error error;
  anello_status_t status{-1, -1, 0};

  // Collectives
  std::uint32_t sequence = 0;
  std::uint64_t digest = 0;
  std::shared_ptr<const Plan> plan;
  Run run;
  std::vector<Lent> lent;  // for its steps' messages, to each peer each key once

  // On the board
  Round round = Round::none;  // the round of its next line
  bool published = false;     // this rank's line for that round is on the board
  Exchange exchange;          // for the fast path
  std::uint32_t barrier_step = 0;

  // Calls that may go over peers' memory: the announcements choose `plan` from these.
  std::shared_ptr<const Plans> plans;
  bool input_inside = false;  // the input lies in the output, from there on:
  std::size_t input_at = 0;   // bytes
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  std::vector<Announcement> announced;  // by rank
  bool announces_as_before = false;     // this rank announces what its entry of `announced` held before
  LineKind entry = LineKind::buffers;   // the kind of this rank's line of the round `announce`
  bool announced_anew = false;          // as not all could do the call on devices
  bool entry_known = false;             // `entry` is valid for these buffers, while entry_version is this process's
  std::uint64_t entry_version = 0;
  bool stays_away = false;                            // its buffers are better not read where they lie (read_policy.h)
  bool judged_slow = false;                           // this rank has judged so, and keeps to it
  std::vector<PeerBuffers> buffers;                   // by rank, where the chosen schedule needs them
  std::vector<std::shared_ptr<const void>> mappings;  // keep the memory of `buffers` mapped
  ResolvedPlan resolved;
  PeerWork peer_work;
  schedule::Reach reach = schedule::Reach::none;  // follows from the announcements
  bool agreed = false;                            // the ranks have agreed before on all announced memory
  bool staged_early = false;                      // its first staging round was done before the lines came
  std::byte* const* staging = nullptr;            // by rank, where the chosen schedule needs it,
  std::size_t staging_from = 0;                   // and the offset in bytes of its first byte
  bool exposed = false;                           // peers may access this rank's buffers

  // Called when the buffers are, or may be, other ones.
  void forget_places() {
    entry_known = false;
    resolved.forget_addresses();
  }
  // Where this rank's input really is.
  const std::byte* own_input() const { return input_inside ? output + input_at : input; }
  // Whether it is this operation's turn on the board, and it waits for a line or for room.
  bool is_on_board() const;
  // Of a call that nobody waits for but the stream that it is in.
  bool is_in_stream() const { return shadow != nullptr && shadow->line != nullptr; }
  // Whether its buffers are those on the device: its steps run there, or may.
  bool is_on_device() const { return shadow != nullptr && shadow->way != Shadow::Way::host; }
  bool is_in_place() const { return shadow != nullptr && shadow->way == Shadow::Way::in_place; }
  // Whether it has its data.
  bool is_ready() const { return shadow == nullptr || shadow->state != Shadow::State::waiting; }
  bool announces() const { return plans != nullptr && plans->announces(); }

  // Messages
  std::uint32_t number = 0;                           // this side's number for the message
  std::uint32_t partner = 0;                          // the other side's number
  std::uint64_t noted = recorder::MessageLog::kNone;  // its number in the record
  std::size_t bytes = 0;                              // the bytes to move in all
  std::size_t moved = 0;
  transport::RemoteAddress got_from;  // of a receive that gets its message,
  std::uint64_t got_into = 0;         // and the region where an adapter stores it
  // Of a send whose message the peer may get from far; kept: null if it may not.
  struct {
    transport::RemoteAddress at;
    std::shared_ptr<const void> kept;
  } given_out;
  bool claims = false;      // a probe that takes the message out
  std::uint32_t claim = 0;  // the message that a matched probe took out, or that this receive takes

  std::uint64_t movement = 0;  // grows with every piece moved; a wait compares it to see progress
  std::uint64_t seen_movement = 0;
  std::int64_t asked_ns = 0;          // when its deadline had passed and this rank asked the others where they are
  std::int64_t last_progress_ns = 0;  // 0: no thread has looked at the clock for it yet
  Operation* next = nullptr;          // in the one list that holds it: window, message queues, free list
  Operation* next_on_board = nullptr;

  // The pattern of a receive or probe.
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
      case Buffer::scratch:
        return (is_in_place() ? shadow->scratch.data() : run.scratch.data()) + slice.offset * element_bytes;
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

// Tells the communicator's record that a posted message begins, that a thread has waited for the operation until now,
// and that it has ended as its error says.
void note_begin(Operation& operation);
void note_stay(const Operation& operation, std::int64_t now);
void note_end(const Operation& operation);

schedule::Collective operation_collective(anello_kind_t kind);

// The call in a user's words: "operation 3, allreduce(...)".
std::string call_text(const Operation& operation);

}  // namespace anello::executor
