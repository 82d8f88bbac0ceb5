#pragma once
// Executes the schedules of all ranks on symbols instead of numbers, in a random order that obeys exactly the
// executor's rules: a step runs when the steps that it waits for are done; the messages of a lane keep program order;
// no rank leaves a barrier before all have arrived. An event that may happen late does happen late in some
// interleaving, so a missing dependency shows as a wrong result. races.h checks accesses to other ranks' buffers for
// all interleavings.
//
// Each element is a hash of the expression that it stands for (a leaf per rank and element, an operation that does not
// commute) together with the ranks in it, so the simulator checks both "the right sum" and "the same bits everywhere".
#include "schedule/calls.h"
#include "schedule/catalog.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::schedule {

struct Interleaving {
  std::uint64_t seed = 1;
  // About this many of 256 messages may be sent into a buffer before the peer's receive is ready; the others wait for
  // it. 0 is the strictest for deadlocks; 256 allows every order that the dependencies allow.
  unsigned eager = 128;
  // This step is delayed while anything else can happen, which reveals steps that should have waited for it.
  int starved_rank = -1;
  std::uint32_t starved_step = 0;
};

struct Traffic {
  std::size_t sent = 0;      // elements, in messages or stored into peers' buffers
  std::size_t received = 0;  // or loaded from there
  std::size_t messages = 0;  // sent
};

struct Outcome {
  std::string problem;  // empty: everything was correct
  std::vector<Traffic> traffic;
  // The digest of all results: equal for all interleavings, because operands combine in an order that ranks fix.
  std::uint64_t digest = 0;
};

// Elements have the call's type; schedules[r] is rank r's.
Outcome simulate(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving = {});

// Simulates each rank's own call: for calls with varying parts, or in place on some ranks only.
Outcome simulate(const Calls& calls, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving = {});

// All ranks' schedules.
std::vector<Schedule> make_all(const Algorithm& algorithm, const Call& call, const Topology& topology,
                               std::size_t chunk);
std::vector<Schedule> make_all(const Algorithm& algorithm, const Calls& calls, const Topology& topology,
                               std::size_t chunk);

}  // namespace anello::schedule
