#pragma once
// Those who keep hold of a region's pages beside its mappings, as an adapter does that has them registered.
#include <cstdint>

namespace anello::memory {

class RegionUser {
 public:
  // The region's identity ends, and its pages with it: let go of them. On the thread that ends it, which may hold locks
  // of this layer: call nothing of region.h from here.
  virtual void region_ends(std::uint64_t region) = 0;

 protected:
  ~RegionUser() = default;
};

// Any thread may call these. A user that has been removed is not called any more.
void add_region_user(RegionUser& user);
void remove_region_user(RegionUser& user);
void tell_region_users(std::uint64_t region);

}  // namespace anello::memory
