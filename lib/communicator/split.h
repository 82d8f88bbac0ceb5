#pragma once
// A communicator that is being made from another: each rank's choice, and the data that is needed to make it.
#include "memory/arena.h"

#include <anello/anello.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace anello {

namespace executor {
class Context;
struct Operation;
}  // namespace executor

// The generation that a rank proposes for a communicator that it makes (executor/generations.h); held until the
// communicator exists or an error occurs.
class Brought {
 public:
  explicit Brought(std::shared_ptr<executor::Context> context);
  ~Brought();
  Brought(const Brought&) = delete;
  Brought& operator=(const Brought&) = delete;
  std::uint32_t generation() const { return generation_; }

 private:
  std::shared_ptr<executor::Context> context_;
  std::uint32_t generation_;
};

struct Split {
  struct Choice {
    std::int32_t color;
    std::int32_t key;
    std::int32_t board;  // the board that this rank has reserved in case it becomes the first of its colour; -1: none
    std::uint32_t generation;  // that it proposes
  };
  std::unique_ptr<Brought> brought;          // by this rank
  std::vector<Choice> choices;               // by rank, complete once the allgather is
  int reserved = -1;                         // this rank's own board, from its own memory
  std::uint32_t number = 0;                  // the number of this split among all splits of its communicator
  executor::Operation* operation = nullptr;  // the allgather, if it was posted

  // The call that completes choices, which must not move.
  anello_call_t gather() {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLGATHER;
    call.sendbuf = ANELLO_IN_PLACE;
    call.recvbuf = choices.data();
    call.count = sizeof(Choice) / sizeof(std::int32_t);
    call.dtype = ANELLO_INT32;
    return call;
  }
};

// The result of all ranks' choices for one of them.
struct Seating {
  std::vector<int> ranks;  // of the parent, in the child's order; empty: this rank joins none
  int board = -1;          // the board that the first of them has reserved
};
// Throws Error (ANELLO_ERR_CORRUPT) for a choice that no rank can make. No side effects.
Seating seating_of(const std::vector<Split::Choice>& choices, int rank);

// Checks a board that another rank claims to have reserved: none (-1), or one other than the whole job's.
inline bool can_be_reserved(int board) { return board == -1 || (board > 0 && board < memory::kMaxBoards); }

// The answer of the first member of a group of ranks to the others.
struct GroupAdmission {
  std::uint64_t id;  // the new communicator's
  std::int32_t board;
  std::int32_t differing;  // a member that gave another list; -1: all gave the same
};
// Throws Error: ANELLO_ERR_MISMATCH if the members gave different lists, ANELLO_ERR_CORRUPT for an impossible answer.
// shares_memory: whether all members share memory, and so may have a board. No side effects.
void check_admission(const GroupAdmission& admission, const std::vector<int>& members, bool shares_memory, int tag);

}  // namespace anello
