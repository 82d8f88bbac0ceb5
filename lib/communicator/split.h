#pragma once
// A communicator that is being made of another: what each rank said, and what is needed to make it of that.
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

// What a rank brings to the generation of a communicator that it makes (executor/generations.h); held until there is
// one, or an error.
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
    std::int32_t board;  // that this rank has reserved, for the case that it becomes the first of its colour; -1: none
    std::uint32_t generation;  // that it brings
  };
  std::unique_ptr<Brought> brought;          // by this rank
  std::vector<Choice> choices;               // by rank, complete once the allgather is
  int reserved = -1;                         // this rank's own board, as it knows it itself
  std::uint32_t number = 0;                  // of this split among all of its communicator's
  executor::Operation* operation = nullptr;  // the allgather, where it was posted

  // The call that completes choices, which must stay where it is.
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

// What all ranks' choices come to for one of them.
struct Seating {
  std::vector<int> ranks;  // of the parent, in the child's order; empty: this rank joins none
  int board = -1;          // that the first of them has reserved
};
// Throws Error (ANELLO_ERR_CORRUPT) for a choice that no rank can make. Pure.
Seating seating_of(const std::vector<Split::Choice>& choices, int rank);

// A board that another rank says it has reserved: none (-1), or one beyond the whole job's.
inline bool can_be_reserved(int board) { return board == -1 || (board > 0 && board < memory::kMaxBoards); }

// What the first member of a group of ranks answers to the others.
struct GroupAdmission {
  std::uint64_t id;  // the new communicator's
  std::int32_t board;
  std::int32_t differing;  // a member that gave another list; -1: all gave the same
};
// Throws Error: ANELLO_ERR_MISMATCH where the members gave different lists, ANELLO_ERR_CORRUPT for an answer that
// cannot be. shares_memory: whether all members do, and so may have a board. Pure.
void check_admission(const GroupAdmission& admission, const std::vector<int>& members, bool shares_memory, int tag);

}  // namespace anello
