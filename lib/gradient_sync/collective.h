#pragma once
// Anello's C API, whose failures become exceptions here.
#include "base/error.h"
#include "base/text.h"

#include <anello/anello.h>

#include <string>

namespace anello::gradient_sync {

// Throws what `result` of a call on comm says; what: what the call was for.
inline void check(anello_comm_t comm, anello_result_t result, const std::string& what) {
  if (result != ANELLO_OK) throw Error(result, what + ": " + anello_last_error(comm));
}

}  // namespace anello::gradient_sync
