#pragma once
// A send and a receive at once.
#include "api/tables.h"

namespace anello::api {

struct SendReceive {
  anello_call_t send;
  anello_call_t receive;
};

// Throws the error of an invalid call.
void require_valid(const SendReceive& both, const Communicator& communicator);
// Posts both, or throws an Error and posts neither.
Work post_both(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator, const SendReceive& both);

}  // namespace anello::api
