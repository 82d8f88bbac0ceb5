#pragma once
// Why a connection was not made, in words that say what to look at.
#include "control/address.h"

#include <string>
#include <vector>

namespace anello::control {

struct ConnectFailure {
  Address address;
  int error = 0;     // of the system; 0: what answers there has said or done what `what` says
  std::string what;  // empty: the connection itself was not made
};

// "tcp://10.1.2.3:4100: connect: Connection refused (errno 111): no process listens there, or ..". A cause that
// neighbours share stands once, after the last of them.
std::string describe(const std::vector<ConnectFailure>& failures);

}  // namespace anello::control
