#pragma once
// The built-in transports, best first: every pair of ranks uses the first one that both may use and that joins them. A
// new transport is a row in registry.cpp. A set of transports is a mask of their rows' bits. A rank's mask travels, so
// inserting a row renumbers those after it, and requires a new wire version.
#include "memory/arena.h"
#include "transports/reach.h"
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anello::transport {

// The parts from which a rank makes transports.
struct Resources {
  memory::Arena arena;            // empty if this rank shares memory with no other
  std::string congestion;         // ANELLO_TCP_CONGESTION
  int ranks_per_processor = 1;    // on this host, rounded up
  std::string checksum = "auto";  // ANELLO_CHECKSUM
  // Asks a rank of this host for the memory behind a key (remote_memory.h); answered() brings it.
  std::function<void(int world, std::uint64_t key)> request_key = [](int, std::uint64_t) {};
  // The transport's address on each rank of the job (Row::address), including this one. Do not trust peers' addresses.
  std::vector<std::string> addresses = {};
};

inline constexpr std::size_t kMostAddressBytes = 200;

// Whether ranks use a transport without being told to (ANELLO_TRANSPORT).
enum class On : std::uint8_t { its_own, request };

struct Row {
  std::string_view name;
  Over over;
  // "" if usable on this machine, else the reason and what to do, for people (anello-info). It tries the transport,
  // which takes some 100 us. Only reaches, and not this, keeps a rank from using the transport.
  std::string (*why_not)();
  // Returns data that other ranks need to reach this one, beside its Place: at most kMostAddressBytes of any value. It
  // is called once for each creation, before ranks meet, perhaps by several threads at once. Null if there is none.
  std::string (*address)();
  // Whether the transport joins two ranks. The order of the ranks must not matter.
  bool (*reaches)(const Place& a, const Place& b);
  // If not, returns the reason for people, as a clause with the transport's name.
  std::string (*why_unreached)(const Place& a, const Place& b);
  // nullptr if the resources lack a part that it needs (an arena).
  std::unique_ptr<Transport> (*make)(const Resources& resources);
  On on = On::its_own;
  // Whether its lanes use a connection for each pair of interfaces that ANELLO_INTERFACES means.
  bool rails = false;

  std::uint32_t bit() const;
};

// The memory that kernels of a device of this process reach in place (cuda_ipc). request_key: as Resources has it.
// Throws Error.
std::unique_ptr<RemoteMemory> make_device_memory(int device,
                                                 std::function<void(int world, std::uint64_t key)> request_key);

std::span<const Row> registry();
// nullptr if there is no such transport.
const Row* find_transport(std::string_view name);
// Requires: there is such a transport.
std::uint32_t bit_of(std::string_view name);
std::uint32_t all_transports();
// Those that ranks use unless they are told which.
std::uint32_t default_transports();
std::uint32_t transports_over(Over over);
// Those of `transports` that need an arena.
std::uint32_t over_arena(std::uint32_t transports);
// For example "inproc, shm", or "none".
std::string transport_names(std::uint32_t transports);

}  // namespace anello::transport
