#pragma once
// How long schedules would take on a simple machine: every rank sends one message at a time, receives one at a time and
// computes one thing at a time. Where ranks are on hosts (Topology::host_of), each host has one link to the others,
// which carries one message at a time each way. Good for comparing algorithms and for drawing, not for promising.
#include "schedule/schedule.h"

#include <vector>

namespace anello::schedule {

// Of messages.
struct Passage {
  double latency_s = 0;  // from the end of a send to its arrival
  double message_s = 0;  // that a message occupies both ports, however short
  double byte_s = 0;     // that each byte does
};

struct Cost : Passage {
  Passage inside;  // the same between ranks of one of several hosts
  double reduce_byte_s = 0;
  double copy_byte_s = 0;
  double memory_byte_s = 0;  // that a byte is loaded from or stored into memory where peers' buffers are in reach
};

// Rough figures of shared memory, and of a network of 25 Gbit/s.
Cost typical_cost(bool network);

struct Span {
  double begin_s = 0;
  double end_s = 0;
};

struct Prediction {
  double seconds = 0;
  std::vector<std::vector<Span>> spans;  // by rank and step
};

// When each step runs.
// Requires: simulate() found no problem.
Prediction predict(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules,
                   const Cost& cost);

}  // namespace anello::schedule
