#include "memory/region_users.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace anello::memory {
namespace {

// Leaked: memory may be freed up to the last static destructor.
struct Users {
  std::mutex mutex;
  std::vector<RegionUser*> list;
};
Users& users() {
  static Users* const instance = new Users;
  return *instance;
}

}  // namespace

void add_region_user(RegionUser& user) {
  const std::lock_guard held(users().mutex);
  users().list.push_back(&user);
}

void remove_region_user(RegionUser& user) {
  const std::lock_guard held(users().mutex);
  std::erase(users().list, &user);
}

void tell_region_users(std::uint64_t region) {
  const std::lock_guard held(users().mutex);
  for (RegionUser* const each : users().list) each->region_ends(region);
}

}  // namespace anello::memory
