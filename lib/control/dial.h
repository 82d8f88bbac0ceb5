#pragma once
// Connects to a rank or a meeting place and proves the secret. It tries again until a deadline, because the other side
// may not have started yet, or its machine may be overloaded.
#include "base/clock.h"
#include "control/address.h"
#include "control/admission.h"

#include <functional>
#include <memory>
#include <vector>

namespace anello::control {

struct Call {
  std::vector<Address> addresses;  // tried in turn
  Credentials credentials;
  Deadline deadline = Deadline::in_ms(0);
  // Stops trying, with ANELLO_ERR_ABORTED, once false. Empty: always wanted.
  std::function<bool()> wanted;
  // The place existed before any rank learned of it, so if no process listens there, or the process does not know the
  // job, it is gone. Then Unknown is thrown at once.
  bool must_exist = false;
};

// Throws Error: AUTH, VERSION, ADDRESS; RENDEZVOUS after the deadline, with the last reason.
Task<std::shared_ptr<Stream>> dial(asio::io_context& io, Call call);

}  // namespace anello::control
