#pragma once
// Lanes over the connected sockets that Control hands out.
#include "transports/reach.h"
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// congestion: as ANELLO_TCP_CONGESTION says it: "auto", "" for the system's, or a name that the kernel knows. Sockets
// come as reno began them: under bbr they would stay paced. ranks_per_processor: what lanes receive into is to lie in a
// processor's near cache until it is reduced, with what the others have there. checksum: as ANELLO_CHECKSUM says it:
// "auto", "off", "headers" or "all".
std::unique_ptr<Transport> make_tcp(std::string congestion, int ranks_per_processor = 1, std::string checksum = "auto");
std::string tcp_why_not();
bool tcp_reaches(const Place& a, const Place& b);
std::string tcp_why_unreached(const Place& a, const Place& b);

}  // namespace anello::transport
