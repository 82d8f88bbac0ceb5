#pragma once
#include "base/error.h"

#include <anello/anello.h>

namespace anello::api {

// Like check, for a kind with counts whose dtype, op and root are valid.
Error check_varying(const anello_call_t& call, int rank, int size);

}  // namespace anello::api
