#pragma once
// Turns the caller's configuration (or the environment's) into a job whose ranks have all met.
#include "control/job.h"

#include <anello/anello.h>

#include <memory>

namespace anello::bootstrap {

// Blocks until all ranks have met or the deadline has passed. Throws Error: ANELLO_ERR_RENDEZVOUS lists missing ranks,
// and on all sides names duplicate ranks and differing sizes with host and pid. config is complete (api has copied it
// over ANELLO_CONFIG_INITIALIZER) and has been checked for contradictions.
std::unique_ptr<control::Job> join(const anello_config_t& config);

// Starts to listen for the ranks that will use the id; also on TCP if this host has an address for others, unless all
// ranks are known to be on this host. Throws Error.
anello_unique_id_t make_unique_id(bool this_host_only = false);

}  // namespace anello::bootstrap
