#pragma once
// The transports built in, best first: every pair of ranks takes the first that both may use and that reaches. A new
// one is a row in registry.cpp. A set of transports is a mask with the bits of their rows; a rank's mask travels, so a
// row in between renumbers those after it, and asks for a new wire version.
#include "memory/arena.h"
#include "transports/reach.h"
#include "transports/transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anello::transport {

// What a rank has to make transports of.
struct Resources {
  memory::Arena arena;            // empty: this rank shares memory with nobody
  std::string congestion;         // ANELLO_TCP_CONGESTION
  int ranks_per_processor = 1;    // of this host, rounded up
  std::string checksum = "auto";  // ANELLO_CHECKSUM
  // Asks a rank of this host for the memory behind a key (remote_memory.h), which answered() brings.
  std::function<void(int world, std::uint64_t key)> request_key = [](int, std::uint64_t) {};
  // What the transport has given out on each rank of the job (Row::address), this one too. Peers' are not to be
  // trusted.
  std::vector<std::string> addresses = {};
};

inline constexpr std::size_t kMostAddressBytes = 200;

struct Row {
  std::string_view name;
  Over over;
  // "" when usable on this machine, else the reason and what to do, for people (anello-info). Tries it, which takes
  // some 100 us. It keeps no rank from taking the transport: reaches does.
  std::string (*why_not)();
  // What other ranks need to know of this one to reach it, beside its Place: at most kMostAddressBytes of any value. It
  // is called once for each creation, before ranks meet, perhaps by several threads at once. Null: nothing.
  std::string (*address)();
  // Whether it joins two ranks; the same both ways round.
  bool (*reaches)(const Place& a, const Place& b);
  // Where it does not: why, for people, in a clause that has its name.
  std::string (*why_unreached)(const Place& a, const Place& b);
  // nullptr where the resources lack what it needs (an arena).
  std::unique_ptr<Transport> (*make)(const Resources& resources);

  std::uint32_t bit() const;
};

std::span<const Row> registry();
// By name; nullptr: no such transport.
const Row* find_transport(std::string_view name);
// The bit of one that there is.
std::uint32_t bit_of(std::string_view name);
// Of all of them.
std::uint32_t all_transports();
// Of those whose lanes are made so.
std::uint32_t transports_over(Over over);
// Those of `transports` that need an arena.
std::uint32_t over_arena(std::uint32_t transports);
// "inproc, shm"; "none".
std::string transport_names(std::uint32_t transports);

}  // namespace anello::transport
