#pragma once
// The keys of registered memory over each of its owner's ports. An address holds the key of the first port, which is
// the memory's name; the keys of the others are told once, in a frame of the lane before the first address.
#include "transports/verbs/greeting.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace anello::transport {

struct MemoryKeys {
  std::uint64_t name = 0;                           // RemoteAddress::key
  std::array<std::uint32_t, kMostRails> of_port{};  // by the port's place in the greeting; 0: it has none
  bool operator==(const MemoryKeys&) const = default;
};
static_assert(sizeof(MemoryKeys) == 40);

// What one end has told the other. Both count alike, and forget at the same note.
class KeyBook {
 public:
  static constexpr std::size_t kMost = 4096;

  // Whether it is news.
  bool note(const MemoryKeys& keys) {
    const auto known = keys_.find(keys.name);
    if (known != keys_.end() && known->second == keys) return false;
    if (known == keys_.end() && keys_.size() >= kMost) keys_.clear();
    keys_[keys.name] = keys;
    return true;
  }
  // Of the owner's port; 0: it is not known.
  std::uint32_t find(std::uint64_t name, std::size_t port) const {
    if (port == 0) return std::uint32_t(name);
    const auto known = keys_.find(name);
    return known == keys_.end() ? 0 : known->second.of_port[port];
  }

 private:
  std::map<std::uint64_t, MemoryKeys> keys_;
};

}  // namespace anello::transport
