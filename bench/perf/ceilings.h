#pragma once
// Measures this host's limits now, so that figures are meaningful on any machine. Each takes less than 0.3 s; the other
// ranks wait meanwhile.
#include "perf/rdma.h"

#include <optional>
#include <string>

namespace perf {

struct Ceilings {
  double memcpy_gbps = 0;               // bytes copied per second by one thread, from and to memory
  std::optional<double> cache_line_ns;  // one way between two threads; none with one processor
  double loopback_latency_us = 0;       // one way, 8 bytes, TCP over 127.0.0.1, blocking sockets
  double loopback_gbps = 0;             // one direction, TCP over 127.0.0.1
  std::optional<Rdma> rdma;             // only if asked for
  std::string missing;                  // why a figure is missing, or ""
};

// with_rdma: ranks use verbs.
Ceilings measure_ceilings(bool with_rdma);

}  // namespace perf
