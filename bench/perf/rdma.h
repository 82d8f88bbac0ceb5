#pragma once
// Bare RDMA WRITEs within this host's adapter, as a reference for the verbs transport.
#include <string>

namespace perf {

struct Rdma {
  std::string port;
  double latency_us = 0;  // one way
  double gbps = 0;
  std::string why_not;  // why there are no figures, or ""
};

// Takes about 0.3 s.
Rdma measure_rdma();

}  // namespace perf
