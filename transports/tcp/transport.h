#pragma once
// Lanes over the connected sockets that Control hands out.
#include "transports/reach.h"
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// congestion: as in ANELLO_TCP_CONGESTION: "auto", "" for the system's, or a name that the kernel knows. Sockets come
// from control with reno: if they had begun with bbr, they would stay paced. ranks_per_processor: received blocks must
// stay in a processor's near cache until they are reduced, beside the blocks of its other ranks. checksum: as in
// ANELLO_CHECKSUM: "auto", "off", "headers" or "all".
std::unique_ptr<Transport> make_tcp(std::string congestion, int ranks_per_processor = 1, std::string checksum = "auto");
std::string tcp_why_not();
bool tcp_reaches(const Place& a, const Place& b);
std::string tcp_why_unreached(const Place& a, const Place& b);

}  // namespace anello::transport
