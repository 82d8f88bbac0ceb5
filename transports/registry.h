#pragma once
// The transports built in, best first. A new one is a row in registry.cpp.
#include "memory/arena.h"
#include "transports/transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace anello::transport {

// What a rank has to make transports of.
struct Resources {
  memory::Arena arena;            // empty: this rank shares memory with nobody
  std::string congestion;         // ANELLO_TCP_CONGESTION
  int ranks_per_processor = 1;    // of this host, rounded up
  std::string checksum = "auto";  // ANELLO_CHECKSUM
  // Asks a rank of this host for the memory behind a key (remote_memory.h), which answered() brings.
  std::function<void(int world, std::uint64_t key)> request_key = [](int, std::uint64_t) {};
};

struct Row {
  std::string_view name;
  std::uint32_t bit;  // control/transport_kinds.def
  // "" when usable on this machine, else the reason and what to do. Tries it, which takes some 100 us.
  std::string (*why_not)();
  // nullptr where the resources lack what it needs (an arena).
  std::unique_ptr<Transport> (*make)(const Resources& resources);
};

std::span<const Row> registry();
// By name; nullptr: no such transport.
const Row* find_transport(std::string_view name);

}  // namespace anello::transport
