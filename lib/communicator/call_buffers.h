#pragma once
#include "communicator/in_place.h"
#include "executor/operation.h"

#include <anello/anello.h>

#include <cstddef>

namespace anello {

// The addresses of a call's input and output.
inline void set_buffers(executor::Operation& operation, const anello_call_t& call, InPlace place) {
  operation.output =
      static_cast<std::byte*>(place == InPlace::own_part ? const_cast<void*>(call.sendbuf) : call.recvbuf);
  // A scatter's root leaves its part in place.
  const bool inside = place == InPlace::yes && call.kind != ANELLO_SCATTER && call.kind != ANELLO_SCATTERV;
  operation.input = inside ? operation.output : static_cast<const std::byte*>(call.sendbuf);
}

}  // namespace anello
