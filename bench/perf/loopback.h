#pragma once
// TCP over 127.0.0.1 between two threads, as plain as it can be: what the tcp transport is held against.

namespace perf {

struct Loopback {
  double latency_us = 0;  // one way
  double gbps = 0;
};

// Takes about 0.3 s. Throws std::system_error where there is no loopback.
Loopback measure_loopback();

}  // namespace perf
