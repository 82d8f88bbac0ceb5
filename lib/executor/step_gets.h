#pragma once
// Messages of schedules' steps between hosts that the receiver's adapter gets from the sender's memory, if that lies in
// a region and the message is long. The sender copies nothing. The receiver combines a piece while the next one comes;
// a message that it only stores goes to its place at once, if that lies in a region, too. Requires the rank's lock.
//
//   sender                                            receiver
//   Route::fill_step   step_rts with the address -->  kept until the receive may be written (resume_early)
//                                                     begin: gets the message, a piece at a time
//   answered           <-- step_cts, done             the step is done, on both sides
//
// A receiver that cannot get a message has it sent, from its first missing byte on, and all later ones of the lane: it
// drops the requests that the sender has sent meanwhile, and the sender sends frames again once it has the answer.
// So a sender whose request has not been answered sends no frames of that lane.
#include "executor/operation.h"
#include "executor/parts.h"
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace anello::executor {

// A part of a message that is being got.
struct StepPiece {
  StepGet* of = nullptr;
  std::byte* slot = nullptr;  // where it comes first; null: it goes to its place
  std::size_t bytes = 0;
  bool here = false;
};

// A message that is being got.
struct StepGet {
  static constexpr std::size_t kDepth = 2;  // pieces under way

  RunLane* lane = nullptr;
  transport::RemoteAddress from;
  std::byte* into = nullptr;  // null: by slots
  std::uint64_t region = 0;   // where `into` lies
  std::size_t bytes = 0;
  std::size_t posted = 0;
  std::array<StepPiece, kDepth> pieces;  // a ring
  std::size_t first = 0;
  std::size_t under_way = 0;
};

class StepGets {
 public:
  explicit StepGets(Parts& parts) : parts_(parts) {}
  ~StepGets();
  StepGets(const StepGets&) = delete;
  StepGets& operator=(const StepGets&) = delete;

  // ---- The sender's side ----
  // The address from which the receiver may get the lane's next message, of `bytes` bytes, until the operation ends.
  // Empty: it goes in frames. Requires: only adapters reach the peer (Flow::far).
  transport::RemoteAddress offer(RunLane& lane, std::uint32_t step, std::size_t bytes);
  void answered(Flow& flow, const transport::FrameHeader& header);

  // ---- The receiver's side ----
  // Begins to get the message of the lane's current receive, or has it sent.
  void begin(RunLane& lane, const transport::RemoteAddress& from);
  // The piece of a transfer with that token; null: it is a transfer of another kind (gets.h).
  static StepPiece* piece_of(transport::Token token) {
    return (token & kOfStep) != 0 ? reinterpret_cast<StepPiece*>(token & ~kOfStep) : nullptr;
  }
  void piece_ended(StepPiece& piece, int error);

  // Those that wait for a slot go on, as far as there are some. Operations that end give back theirs, too.
  void serve_waiting();

  // ---- Ends ----
  // This rank's adapter stores nothing more for the operation, which has failed.
  void close_all(Operation& operation);
  // The operation ends. with_error: as close_all, and peers' adapters load nothing more of what it has lent.
  void end(Operation& operation, bool with_error);

 private:
  // Tokens of pieces are odd, and those of receives are not.
  static constexpr transport::Token kOfStep = 1;
  static constexpr std::size_t kPieceBytes = 512 * 1024;
  static constexpr std::size_t kSlots = 16;

  static transport::RemoteMemory& memory_of(const StepGet& get);
  void post(StepGet& get);
  void take_in(StepGet& get);
  void have_it_sent(RunLane& lane);
  void answer(RunLane& lane, Answer answer, std::size_t from_byte);
  void close(StepGet& get);
  std::byte* take_slot();
  void give_back_slot(StepPiece& piece);

  Parts& parts_;
  std::vector<std::unique_ptr<StepGet>> gets_;
  std::vector<StepGet*> free_;
  std::deque<StepGet*> waiting_;  // for a slot, with nothing under way
  // Memory in a region where pieces come that must be combined. It is made at the first such piece.
  std::byte* slots_ = nullptr;
  bool has_no_slots_ = false;  // there was no memory for them
  std::vector<std::byte*> free_slots_;
};

}  // namespace anello::executor
