#pragma once
// Descriptors of memory that ranks of this host have made for each other (transports/region.h): asked for when a rank first
// meets one, over a connection of its own to the rank that has it. Service thread only.
#include "control/stream.h"

#include <cstdint>
#include <memory>

namespace anello::control {

class Agent;

class RegionPassing {
 public:
  explicit RegionPassing(Agent& agent) : agent_(agent) {}

  // Answered by Event::region.
  void request(int peer, std::uint64_t region);
  void adopt(int from, std::shared_ptr<Stream> stream);

 private:
  static Task<> fetch(std::shared_ptr<Agent> agent, int peer, std::uint64_t region);
  static Task<> serve(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);

  Agent& agent_;
};

}  // namespace anello::control
