#include "control/transport_kind.h"

namespace anello::control {
namespace {

constexpr TransportKind kKinds[] = {
#define ANELLO_TRANSPORT_KIND(name, joins) {#name, bit::name, Joins::joins},
#include "control/transport_kinds.def"
#undef ANELLO_TRANSPORT_KIND
};

}  // namespace

std::span<const TransportKind> transport_kinds() { return kKinds; }

const TransportKind* find_transport_kind(std::string_view name) {
  for (const TransportKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::uint32_t joining(Joins joins) {
  std::uint32_t bits = 0;
  for (const TransportKind& kind : kKinds) {
    if (kind.joins == joins) bits |= kind.bit;
  }
  return bits;
}

std::uint32_t over_arena(std::uint32_t transports) { return transports & ~joining(Joins::network); }

std::string transport_names(std::uint32_t transports) {
  std::string names;
  for (const TransportKind& kind : kKinds) {
    if ((transports & kind.bit) == 0) continue;
    if (!names.empty()) names += ", ";
    names += kind.name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace anello::control
