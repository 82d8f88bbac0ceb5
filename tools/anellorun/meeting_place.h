#pragma once
// Brings the agents of all hosts to where the ranks can start.
#include "anellorun/remote_host.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anellorun {

// Lets the hosts' descriptors be handled until holds() is true or the time has passed; then false. It throws if a host
// is lost.
using Wait = std::function<bool(const std::function<bool()>& holds, std::chrono::seconds time)>;

// A place on the host of rank 0 that all others reach. ports: ANELLO_PORT_RANGE, or "".
// Throws std::runtime_error, which names the hosts, addresses and causes.
MeetingPlace find_meeting_place(const std::vector<RemoteHost*>& hosts, const WantedInterfaces& interfaces,
                                const std::string& ports, const Wait& wait);

}  // namespace anellorun
