#pragma once
// Estimates the time of schedules on a simple machine: every rank sends one message, receives one message and executes
// one computation at a time. If ranks are on hosts (Topology::host_of), each host has one link to the others, which
// carries one message at a time each way. The estimate is good for comparing algorithms and for drawing, but is no
// promise.
#include "schedule/schedule.h"

#include <functional>
#include <vector>

namespace anello::schedule {

// For messages.
struct Passage {
  double latency_s = 0;  // from the end of a send to its arrival
  double message_s = 0;  // the time for which a message occupies both ports, however short it is
  double byte_s = 0;     // the additional time per byte
};

struct Cost : Passage {
  Passage inside;  // the same values between ranks of one of several hosts
  double reduce_byte_s = 0;
  double copy_byte_s = 0;
  double memory_byte_s = 0;  // the time to load or store a byte if peers' buffers are reachable
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

// The time, from the schedules of one host's ranks alone: good where all ranks do the same at the same time, as in
// ring, pairwise and hierarchical, and all hosts are equal. What such a rank sends as its n-th message, it also
// receives as its n-th one. -1: sends and receives do not correspond, as in a tree.
double predict_in_step(const Call& call, const Topology& topology, const Cost& cost,
                       const std::function<Schedule(int rank)>& schedule_of);

}  // namespace anello::schedule
