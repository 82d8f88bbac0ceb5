#pragma once
// The regions of peers that this rank has mapped, or has been refused. Its memory is asked for once, of the rank that
// announced it, and the mapping kept while it is used now and then. Requires the context's lock.
#include "memory/region_mapping.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace anello::memory {

// Whether memory under a key of a peer's can be reached. asked: the answer is on its way; the others are final.
enum class KeyState : std::uint8_t { asked, ready, refused };

class RegionCache {
 public:
  using State = KeyState;

  // What is known of it. Where that is nothing yet, ask() is to have it sent for (answered), which happens once.
  template <class Ask>
  State look_up(std::uint64_t region, Ask&& ask) {
    bool is_new = false;
    const State state = find(region, is_new);
    if (is_new && state == State::asked) ask();
    return state;
  }
  // Event::region. memory empty: there is none.
  void answered(std::uint64_t region, PassedRange memory);
  // Empty: it is not mapped.
  std::shared_ptr<RegionMapping> mapping(std::uint64_t region) const;
  // Where it has its byte `offset`, with `bytes` more behind it, for as long as *mapping is kept; nullptr: not mapped,
  // or shorter.
  std::byte* at(std::uint64_t region, std::size_t offset, std::size_t bytes, std::shared_ptr<RegionMapping>* mapping);

 private:
  // Beyond that many, one that was not used for the longest time is unmapped. Those of all calls under way are fewer.
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
