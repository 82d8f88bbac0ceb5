#pragma once
// The exception for a failed call of Anello. The rank's main function catches it.
#include <anello/anello.h>

#include <stdexcept>
#include <string>

namespace perf {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(anello_result_t result, const char* call, anello_comm_t comm) {
  if (result == ANELLO_OK) return;
  throw Failure(std::string(call) + ": " + anello_result_name(result) + ": " + anello_last_error(comm));
}

}  // namespace perf
