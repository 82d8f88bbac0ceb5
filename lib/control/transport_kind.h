#pragma once
// The transports as control sees them: which pairs of ranks each joins, so that every pair gets the first that works
// for it. How they are made is the registry's (transports/registry.h).
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anello::control {

enum class Joins {
  process,  // threads of one process, over an arena
  host,     // processes that share an arena
  network,  // any two, over a socket that control connects
};

struct TransportKind {
  std::string_view name;
  std::uint32_t bit;
  Joins joins;
};

namespace transport_number {
enum : int {
#define ANELLO_TRANSPORT_KIND(name, joins) name,
#include "control/transport_kinds.def"
#undef ANELLO_TRANSPORT_KIND
  count
};
}  // namespace transport_number

// bit::shm
namespace bit {
#define ANELLO_TRANSPORT_KIND(name, joins) inline constexpr std::uint32_t name = 1u << transport_number::name;
#include "control/transport_kinds.def"
#undef ANELLO_TRANSPORT_KIND
inline constexpr std::uint32_t all = (1u << transport_number::count) - 1;
}  // namespace bit

// Best first.
std::span<const TransportKind> transport_kinds();
// nullptr: no such transport.
const TransportKind* find_transport_kind(std::string_view name);
// Bits of those that join such pairs.
std::uint32_t joining(Joins joins);
// Those of `transports` that need an arena.
std::uint32_t over_arena(std::uint32_t transports);
// "inproc, shm"; "none".
std::string transport_names(std::uint32_t transports);

}  // namespace anello::control
