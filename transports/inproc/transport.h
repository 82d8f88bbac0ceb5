#pragma once
// Lanes between ranks that are threads of one process. This is the reference: the simplest code that keeps the
// contract.
#include "memory/arena.h"
#include "transports/reach.h"
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// The lanes of an arena live as long as its mapping in this process, so a rank that comes late finds the frames of a
// peer that has left. At most one endpoint per peer and arena is ever opened; the owner of the arena's mapping must
// outlive them.
std::unique_ptr<Transport> make_inproc(const memory::Arena& arena);
std::string inproc_why_not();
bool inproc_reaches(const Place& a, const Place& b);
std::string inproc_why_unreached(const Place& a, const Place& b);

}  // namespace anello::transport
