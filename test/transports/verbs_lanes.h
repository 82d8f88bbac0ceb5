#pragma once
// Lanes over the devices of tools/rdma-vm, for tests.
#include "base/clock.h"
#include "support/catch.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/verbs/transport.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include <sched.h>
#include <unistd.h>

namespace anello::testing {

using namespace anello::transport;

inline VerbsSettings on(const char* device) {
  VerbsSettings settings;
  settings.devices = device;
  settings.withdraw_ms = 20'000;  // the devices are emulated
  return settings;
}

// A shell command of the machine. False: it has failed.
inline bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

// Both ends exist, and have not heard of each other.
inline Lane unmet(const char* one = "rxe0", const char* other = "rxe1") {
  auto sockets = connected(false);
  Lane lane;
  for (const char* device : {one, other}) lane.keep.push_back(make_verbs(on(device)));
  lane.end[0] = lane.keep[0]->open(1, -1, std::move(sockets.first));
  lane.end[1] = lane.keep[1]->open(0, -1, std::move(sockets.second));
  return lane;
}

// A greeting, then its confirmation, each way.
inline void meet(Endpoint& one, Endpoint& other) {
  for (int turn = 0; turn < 100; ++turn) {
    REQUIRE(one.incoming() == nullptr);
    REQUIRE(other.incoming() == nullptr);
    ::sched_yield();
  }
}

inline Lane met(const char* one = "rxe0", const char* other = "rxe1") {
  Lane lane = unmet(one, other);
  meet(*lane.end[0], *lane.end[1]);
  return lane;
}

// Of the driver, since the device was made. The kernel shows values of up to 10 ms before.
inline std::uint64_t counter_of(const std::string& device, const std::string& name) {
  ::usleep(50'000);
  std::uint64_t count = 0;
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + name);
  REQUIRE(file >> count);
  return count;
}

inline bool move(Endpoint& from, Collector& to, std::uint32_t frame, std::size_t bytes) {
  const auto payload = payload_of(0, frame, bytes);
  const Deadline deadline = Deadline::in_ms(20'000);
  bool sent = false, arrived = false;
  while ((!sent || !arrived) && !deadline.passed()) {
    if (!sent) sent = from.send(header_of(0, frame, bytes), payload.data());
    if (!arrived) arrived = to.poll();
  }
  return arrived && difference(to.header(), to.payload(), 0, frame, bytes).empty();
}

inline void poll_until_failure(Endpoint& end) {
  const Deadline deadline = Deadline::in_ms(20'000);
  while (end.failure() == nullptr && !deadline.passed()) end.incoming();
  REQUIRE(end.failure() != nullptr);
}

}  // namespace anello::testing
