#pragma once
// The peers' regions that this rank has mapped, or has been refused. It asks the rank that announced a region for its
// memory once, and keeps the mapping while it is used now and then. Requires the context's lock.
#include "memory/region_mapping.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace anello::memory {

// Whether the memory under a peer's key can be reached. asked: the answer is on its way; the other states are final.
enum class KeyState : std::uint8_t { asked, ready, refused };

class RegionCache {
 public:
  using State = KeyState;

  // Returns the region's state. Calls ask() once, for a new region, to request its memory; answered() takes the answer.
  template <class Ask>
  State look_up(std::uint64_t region, Ask&& ask) {
    bool is_new = false;
    const State state = find(region, is_new);
    if (is_new && state == State::asked) ask();
    return state;
  }
  // For Event::region. memory is empty if there is none.
  void answered(std::uint64_t region, PassedRange memory);
  // Empty if the region is not mapped.
  std::shared_ptr<RegionMapping> mapping(std::uint64_t region) const;
  // The address of `bytes` bytes from `offset` on, valid while *mapping is kept; nullptr if the region is not mapped or
  // is shorter.
  std::byte* at(std::uint64_t region, std::size_t offset, std::size_t bytes, std::shared_ptr<RegionMapping>* mapping);

 private:
  // Beyond this many, the least recently used one is unmapped. All calls under way together use fewer.
  static constexpr std::size_t kMost = 8192;
  struct Entry {
    State state = State::asked;
    std::shared_ptr<RegionMapping> mapping;
    std::uint64_t used = 0;
  };
  State find(std::uint64_t region, bool& is_new);
  void make_room();
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace anello::memory
