#pragma once
// Executes the schedules of all ranks on symbols instead of numbers, in a random order that honours exactly what the
// executor honours: a step runs when the steps it waits for are done; the messages of a lane keep program order; nobody
// leaves a barrier before all have come. What may happen late happens late in some interleaving, so a dependency that
// is missing shows as a wrong result. What ranks do to each other's buffers is checked for all interleavings: races.h.
//
// Each element is a hash of the expression that it stands for (a leaf per rank and element, an operation that does not
// commute) and the ranks that are in it, so "the right sum" and "the same bits everywhere" are both checked.
#include "schedule/catalog.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::schedule {

struct Interleaving {
  std::uint64_t seed = 1;
  // Of 256 messages about so many may leave before the peer's receive is ready, into a buffer; the others wait for it.
  // 0 is the strictest for deadlocks, 256 allows every order that the dependencies allow.
  unsigned eager = 128;
  // Held back while anything else can happen: what should have waited for it is found out.
  int starved_rank = -1;
  std::uint32_t starved_step = 0;
};

struct Traffic {
  std::size_t sent = 0;      // elements, in messages or stored into peers' buffers
  std::size_t received = 0;  // or loaded from there
  std::size_t messages = 0;  // sent
};

struct Outcome {
  std::string problem;  // empty: all went as it should
  std::vector<Traffic> traffic;
  // Of all results: equal for all interleavings, since operands combine in an order fixed by rank.
  std::uint64_t digest = 0;
};

// Elements of the call's type; schedules[r] is rank r's.
Outcome simulate(const Call& call, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving = {});

// The same of each rank's own call: those with varying parts, or in place on some ranks only.
Outcome simulate(const std::vector<Call>& calls, const Topology& topology, const std::vector<Schedule>& schedules,
                 const Interleaving& interleaving = {});

// All ranks' schedules.
std::vector<Schedule> make_all(const Algorithm& algorithm, const Call& call, const Topology& topology,
                               std::size_t chunk);

}  // namespace anello::schedule
