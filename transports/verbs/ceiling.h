#pragma once
// What a port does with bare RDMA WRITEs now, as a reference for figures of the same run: from one queue pair of the
// port to another, so no second host has to take part.
#include "transports/verbs/settings.h"

#include <string>

namespace anello::transport {

struct VerbsCeiling {
  std::string port;       // "rxe0 port 1"; empty if none can be used
  double latency_us = 0;  // one way, 8 bytes, both ends polled
  double gbps = 0;        // one direction, 64 KiB each, several under way
  std::string why_not;    // why there are no figures, or ""
};

// Of the port that ranks take. About 0.3 s.
VerbsCeiling measure_verbs_ceiling(const VerbsSettings& settings = VerbsSettings::of(Config::get()));

}  // namespace anello::transport
