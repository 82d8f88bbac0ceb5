#pragma once
// Lanes over the connected sockets that Control hands out.
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// congestion: as ANELLO_TCP_CONGESTION says it: "auto", "" for the system's, or a name that the kernel knows.
std::unique_ptr<Transport> make_tcp(std::string congestion);
std::string tcp_why_not();

}  // namespace anello::transport
