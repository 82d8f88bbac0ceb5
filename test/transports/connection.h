#pragma once
// Two connected sockets over loopback, by IPv4 or IPv6.
#include "base/unique_fd.h"

#include <utility>

namespace anello::testing {

// Throws Error if the address family does not exist.
std::pair<UniqueFd, UniqueFd> connected(bool ipv6, const char* congestion = nullptr);
bool has_ipv6();

}  // namespace anello::testing
