#pragma once
// What can be said of a call's arguments without asking anybody.
#include "base/error.h"

#include <anello/anello.h>

namespace anello::api {

// An Error that names the argument, or none.
Error check(const anello_call_t& call, int rank, int size);

}  // namespace anello::api
