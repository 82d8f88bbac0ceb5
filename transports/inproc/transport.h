#pragma once
// Lanes between ranks that are threads of one process: the reference, the simplest that keeps the contract.
#include "memory/arena.h"
#include "transports/reach.h"
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// The lanes of an arena live as long as its mapping in this process, so that what a peer sent before it left is there
// whenever a rank comes. At most one endpoint per peer and arena is ever opened; what holds the mapping of arena must
// outlive them.
std::unique_ptr<Transport> make_inproc(const memory::Arena& arena);
std::string inproc_why_not();
bool inproc_reaches(const Place& a, const Place& b);
std::string inproc_why_unreached(const Place& a, const Place& b);

}  // namespace anello::transport
