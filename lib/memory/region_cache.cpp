#include "memory/region_cache.h"

#include "base/error.h"
#include "base/log.h"

#include <algorithm>

namespace anello::memory {

RegionCache::State RegionCache::find(std::uint64_t region, bool& is_new) {
  if (const auto known = entries_.find(region); known != entries_.end()) {
    known->second.used = ++clock_;
    return known->second.state;
  }
  make_room();
  Entry& entry = entries_[region];
  entry.used = ++clock_;
  // Another rank of this process may have mapped it.
  entry.mapping = RegionMapping::find(region);
  if (entry.mapping) entry.state = State::ready;
  is_new = true;
  return entry.state;
}

void RegionCache::answered(std::uint64_t region, PassedRange memory) {
  const auto found = entries_.find(region);
  if (found == entries_.end() || found->second.state != State::asked) return;
  found->second.state = State::refused;
  if (!memory) return;
  try {
    found->second.mapping = RegionMapping::of(region, std::move(memory));
    found->second.state = State::ready;
  } catch (const Error& error) {
    log::info(-1, "another process's memory is not used: ", error.text());
  }
}

std::byte* RegionCache::at(std::uint64_t region, std::size_t offset, std::size_t bytes,
                           std::shared_ptr<RegionMapping>* kept) {
  const auto found = entries_.find(region);
  if (found == entries_.end() || !found->second.mapping) return nullptr;
  const RegionMapping& mapping = *found->second.mapping;
  if (offset > mapping.bytes() || bytes > mapping.bytes() - offset) return nullptr;
  *kept = found->second.mapping;
  return mapping.data() + offset;
}

std::shared_ptr<RegionMapping> RegionCache::mapping(std::uint64_t region) const {
  const auto found = entries_.find(region);
  return found == entries_.end() ? nullptr : found->second.mapping;
}

void RegionCache::make_room() {
  if (entries_.size() < kMost) return;
  const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return (a.second.state == State::asked) < (b.second.state == State::asked) ||
           ((a.second.state == State::asked) == (b.second.state == State::asked) && a.second.used < b.second.used);
  });
  if (oldest->second.state != State::asked) entries_.erase(oldest);
}

}  // namespace anello::memory
