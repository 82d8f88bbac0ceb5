#pragma once
// Plain TCP over 127.0.0.1 between two threads, as a reference for the tcp transport.

namespace perf {

struct Loopback {
  double latency_us = 0;  // one way
  double gbps = 0;
};

// Takes about 0.3 s. Throws std::system_error if there is no loopback.
Loopback measure_loopback();

}  // namespace perf
