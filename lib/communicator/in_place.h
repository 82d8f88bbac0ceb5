#pragma once
#include <anello/anello.h>

namespace anello {

// Whether the call's one buffer holds both what this rank hands in and what it gets: said with ANELLO_IN_PLACE, or by
// the address at which the one stands in the other. Needs no valid arguments.
bool is_in_place(const anello_call_t& call, int rank);

}  // namespace anello
