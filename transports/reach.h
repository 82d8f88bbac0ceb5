#pragma once
// Decides whether a transport joins two ranks. All ranks, and the meeting place, decide alike from the data that the
// ranks exchanged when they met; nothing here asks the system.
#include <cstdint>
#include <string>

namespace anello::transport {

// A rank as the others know it.
struct Place {
  std::uint64_t process = 0;  // equal for ranks of one process
  std::uint64_t network = 0;  // equal for ranks of one kernel and network namespace
  std::uint32_t user = 0;
  std::uint64_t arena = 0;  // equal for ranks that share an arena
  bool has_arena = false;
  std::string address;  // the transport's (Row::address)
};

inline bool share_an_arena(const Place& a, const Place& b) { return a.has_arena && b.has_arena && a.arena == b.arena; }

// The means by which ranks get a lane.
enum class Over : std::uint8_t {
  threads,     // the arena of one process
  arena,       // the arena of a host
  connection,  // a socket that control connects and authenticates
};

}  // namespace anello::transport
