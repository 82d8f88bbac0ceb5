#pragma once
// From what a caller says (or the environment does) to a job whose ranks have all met.
#include "control/job.h"

#include <anello/anello.h>

#include <memory>

namespace anello::bootstrap {

// Blocks until all ranks have met or the deadline has passed. Throws Error: ANELLO_ERR_RENDEZVOUS lists missing
// ranks; doubled ranks and differing sizes are named with host and pid, on all sides. config is complete (api has
// copied it over ANELLO_CONFIG_INITIALIZER) and already checked for its own contradictions.
std::unique_ptr<control::Job> join(const anello_config_t& config);

// Starts to listen for the ranks that will come with the id; on TCP as well where this host has an address for others,
// unless all ranks are known to be on this host. Throws Error.
anello_unique_id_t make_unique_id(bool this_host_only = false);

}  // namespace anello::bootstrap
