#pragma once
// The Job that bootstrap returns: the caller's side of a rank, over its agent on the service thread.
#include "control/job.h"
#include "control/peer.h"

#include <memory>
#include <vector>

namespace anello::control {

class Agent;
class ServiceHold;

// agent: settled, on a service that hold keeps alive.
std::unique_ptr<Job> make_membership(ServiceHold hold, std::shared_ptr<Agent> agent, Shared shared);
// The job of a single rank: it has no thread and no socket.
std::unique_ptr<Job> make_lone_membership(Shared shared);

}  // namespace anello::control
