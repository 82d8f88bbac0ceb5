#pragma once
// A communicator that is being made of another: what each rank said, and what is needed to make it of that.
#include <anello/anello.h>

#include <cstdint>
#include <vector>

namespace anello {

namespace executor {
struct Operation;
}

struct Split {
  struct Choice {
    std::int32_t color;
    std::int32_t key;
    std::int32_t board;  // that this rank has reserved, for the case that it becomes the first of its colour; -1: none
  };
  std::vector<Choice> choices;  // by rank, complete once the allgather is
  std::uint32_t number = 0;     // of this split among all of its communicator's
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

}  // namespace anello
