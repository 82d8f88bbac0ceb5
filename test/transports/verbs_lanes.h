#pragma once
// Lanes over the devices of tools/rdma-vm, for tests.
#include "base/clock.h"
#include "support/catch.h"
#include "support/knob.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/transport.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include <sched.h>
#include <unistd.h>

namespace anello::testing {

using namespace anello::transport;

// Cases name the devices of soft RoCE. Where VERBS_OVER_IWARP=1, they are those of soft iWARP.
inline bool is_over_iwarp() { return knob("VERBS_OVER_IWARP", 0) == 1; }
inline std::string named(std::string devices) {
  const std::string rxe = "rxe";
  for (std::size_t at = 0; is_over_iwarp() && (at = devices.find(rxe, at)) != std::string::npos;)
    devices.replace(at, rxe.size(), "siw");
  return devices;
}

// Its interface, when it goes down, is told to the port of rxe0 as a link that is down. siw ends its connections, too,
// and hears nothing of the cable's other end.
inline std::string link_of_first() { return is_over_iwarp() ? "roce0" : "roce1"; }

inline VerbsSettings on(const std::string& devices) {
  VerbsSettings settings;
  settings.devices = named(devices);
  settings.withdraw_ms = 20'000;  // the devices are emulated
  return settings;
}

// A shell command of the machine. False: it has failed.
inline bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

// Both ends exist, and have not heard of each other.
inline Lane unmet(const std::string& one = "rxe0", const std::string& other = "rxe1") {
  auto sockets = connected(false);
  Lane lane;
  for (const std::string& device : {one, other}) lane.keep.push_back(make_verbs(on(device)));
  lane.end[0] = lane.keep[0]->open(1, -1, std::move(sockets.first));
  lane.end[1] = lane.keep[1]->open(0, -1, std::move(sockets.second));
  return lane;
}

// Whether this end's queue pairs are the peer's. Over iWARP that takes a while.
inline bool is_joined(const Endpoint& end, std::size_t rails) {
  const auto& its = dynamic_cast<const VerbsEndpoint&>(end);
  const auto& transfers = its.transfers().rails();
  return its.rails_up() >= rails && std::all_of(transfers.begin(), transfers.end(),
                                                [](const auto& each) { return each->is_open() || each->is_over(); });
}

// A greeting, then its confirmation, each way.
inline void meet(Endpoint& one, Endpoint& other, std::size_t rails = 1) {
  const Deadline limit = Deadline::in_ms(20'000);
  while (is_over_iwarp() && !(is_joined(one, rails) && is_joined(other, rails))) {
    REQUIRE_FALSE(limit.passed());
    REQUIRE(one.incoming() == nullptr);
    REQUIRE(other.incoming() == nullptr);
  }
  for (int turn = 0; turn < 100; ++turn) {
    REQUIRE(one.incoming() == nullptr);
    REQUIRE(other.incoming() == nullptr);
    ::sched_yield();
  }
}

inline Lane met(const std::string& one = "rxe0", const std::string& other = "rxe1") {
  Lane lane = unmet(one, other);
  meet(*lane.end[0], *lane.end[1]);
  return lane;
}

// Bytes that have left the interface of that number.
inline std::uint64_t sent_over(int interface) {
  std::uint64_t count = 0;
  std::ifstream file("/sys/class/net/roce" + std::to_string(interface) + "/statistics/tx_bytes");
  REQUIRE(file >> count);
  return count;
}

// Of the driver (siw has none), since the device was made. The kernel shows values of up to 10 ms before.
inline std::uint64_t counter_of(const std::string& device, const std::string& name) {
  if (is_over_iwarp()) return 0;
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
