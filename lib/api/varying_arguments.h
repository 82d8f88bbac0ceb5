#pragma once
#include "base/error.h"

#include <anello/anello.h>

namespace anello::api {

// As check, of a kind with counts whose dtype, op and root are right.
Error check_varying(const anello_call_t& call, int rank, int size);

}  // namespace anello::api
