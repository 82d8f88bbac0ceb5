#pragma once
// Messages that the receiver gets from the sender's buffer: which ones, and the gets that are pending. Requires the
// rank's lock.
//
// The RTS carries the address, and the receiver copies the message out of memory that it has mapped, or reads it by
// system call: one copy, where the ring costs two. A receiver that has not mapped that memory yet requests it, and has
// the message sent like any other; so does a receiver that may not read the sender's process, or finds that a get takes
// longer (read_policy.h). A send whose address was told is complete once the receiver has answered; a send that ends
// with an error before that allows no more gets, and the receiver discards a copy that it finishes later.
//
// Between hosts an adapter gets the message, if both buffers lie in regions, or in devices' memory that it reaches. The
// sender gives its buffer out until the answer comes; a send that ends with an error takes it back, which ends a get
// under way with an error.
#include "executor/group.h"
#include "executor/parts.h"
#include "messaging/rendezvous.h"
#include "transports/remote_memory.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace anello::executor {

struct StepPiece;

class Gets {
 public:
  explicit Gets(Parts& parts);

  // Sets which messages a new flow's peer may get, and which go without an RTS.
  void set_up(Flow& flow) const;
  // Whether only adapters get messages from and to that rank.
  bool is_far(const Group& group, int peer) const;
  // A message to that rank goes without an RTS up to this many bytes.
  std::size_t most_eager(const Group& group, int peer) const;

  // ---- The sender's side ----
  // The address of a message that the receiver may get; empty: the message must be sent.
  transport::RemoteAddress address_to_tell(const Flow& flow, const std::byte* payload, std::size_t bytes) const;
  // The same for a send, whose buffer it gives out if the receiver is far.
  transport::RemoteAddress offer(const Flow& flow, Operation& send) const;
  // The receiver has answered.
  static void answered(Operation& send) { send.given_out.kept.reset(); }
  // The send has ended with an error.
  static void take_back(const Flow& flow, Operation& send);
  // Counts a message of a size that the peer may get, which goes with its address or as payload.
  void note_going(Flow& flow, std::size_t bytes, bool has_address) const;
  // The peer asks for so many messages of this size without addresses.
  static void pause(Flow& flow, std::size_t bytes, std::uint32_t messages);

  // ---- The receiver's side ----
  // The error of a rank that has sent the address of a message, though nothing of it can be reached.
  static Error shares_no_memory(const control::Job& job, int world);
  enum class Begun { done, pending, refused };
  struct Refusal {
    Answer answer = Answer::send;
    std::uint32_t messages = 0;  // of send_far: how many messages
  };
  // Gets the requested message into the receive that has taken it: a short one at once, a long one in pieces between
  // which other work has its turn. refused: the message must be sent, and *refusal is the answer.
  Begun begin(Flow& flow, Operation& receive, const transport::RemoteAddress& at, Refusal* refusal) const;
  // Whether an adapter would bring the message to the receive's device.
  static bool goes_to_device(const Flow& flow, const Operation& receive) {
    return flow.far != nullptr && receive.shadow != nullptr && receive.shadow->may_be_brought;
  }
  // Gets a short message at once. False: nothing has happened, except that the key may have been requested.
  bool get_now(Flow& flow, const transport::RemoteAddress& at, std::byte* into, std::size_t bytes) const;

  // Moves each pending get by a piece. True: something moved.
  bool work() const;
  struct Ended {
    Operation* receive;
    StepPiece* piece;  // of a step's message (step_gets.h), if `receive` is null
    int error;         // not 0: the message must be sent
  };
  // Takes a get that has ended out of those that are pending.
  std::optional<Ended> take_ended() const;
  // The same for one of the group's that has not: it stores nothing any more. Null: there is none.
  Operation* withdraw_any(Group& group) const;

 private:
  bool meets_on_host(const Group& group, int peer) const;
  transport::RemoteMemory& memory_for(const Flow& flow) const;
  Begun begin_get(Flow& flow, Operation& receive, const transport::RemoteAddress& at) const;
  bool may_be_sent(std::size_t bytes) const;
  bool is_paused(const Flow& flow, std::size_t bytes) const;
  memory::ReadPolicy::Turn turn_of(Flow& flow, std::size_t bytes, bool begins) const;
  Refusal refusal(Flow& flow, const transport::RemoteAddress& at, std::size_t bytes,
                  memory::ReadPolicy::Turn turn) const;
  bool is_possible(const Flow& flow, const transport::RemoteAddress& at) const;
  bool counts(const Flow& flow, const transport::RemoteAddress& at, std::size_t bytes) const;
  bool copy_now(const Flow& flow, const transport::RemoteAddress& at, std::byte* into, std::size_t bytes) const;

  progress::Driver& driver_;
  memory::Buffers& buffers_;
  Activity& activity_;
  Routes& routes_;
  const int sharing_;
  const memory::ReadPolicy::Wish staging_;
};

}  // namespace anello::executor
