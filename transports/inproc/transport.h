#pragma once
// Lanes between ranks that are threads of one process: the reference, the simplest that keeps the contract.
#include "transports/arena.h"
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// The lanes of an arena live as long as any of its ranks' transports in this process: make yours before your peers may
// send, and keep it until you have received everything. At most one endpoint per peer and arena is ever opened; what
// holds the mapping of arena must outlive them.
std::unique_ptr<Transport> make_inproc(const Arena& arena);
std::string inproc_why_not();

}  // namespace anello::transport
