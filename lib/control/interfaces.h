#pragma once
// This host's network addresses, and the one by which other hosts reach it.
#include "base/network_interfaces.h"

#include <cstddef>
#include <string>
#include <vector>

namespace anello::control {

// Whether one of this host's interfaces has the address.
bool is_local(const std::string& ip);
// The address of this host from which packets to ip leave; empty: no route.
std::string source_towards(const std::string& ip);

// An address of an interface that filter means (ANELLO_INTERFACE; interface_filter.h): the one from which packets to
// destination leave, if that is among them; else one that filter names in full; else the first that is neither the
// loopback nor a container engine's; else the first. destination: empty if unknown. Throws Error if there is none.
std::string address_of_interface(const std::string& filter, const std::string& destination);

// An address of each other interface that filter means (ANELLO_INTERFACES), in the kernel's order: of those that are up
// and lead to other hosts, unless filter names others in full; at most so many. first: an address of the interface that
// is left out, whose kind of address (IPv4 or IPv6) is preferred.
std::vector<std::string> addresses_beside(const std::string& first, const std::string& filter, std::size_t most);

// Which words of ANELLO_INTERFACES mean none of this host's interfaces, for a person; empty: each means one.
std::string words_without_interface(const std::string& filter);

// The address of this host for ranks on other hosts. destination: an address that all ranks reach, such as the meeting
// place's, or empty. It is the address that leads there, or else to the rest of the network, or else that of any
// interface that is up: hosts need no default route. Empty: there is only the loopback.
std::string address_towards(const std::string& destination);

// An IPv6 address that another host has told. The scope of a link-local one has a meaning on that host only; here it is
// that of the interface by which own, an address of this host, reaches it.
std::string with_scope_of(const std::string& told, const std::string& own);

}  // namespace anello::control
