#include "transports/verbs/registrations.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace anello::transport {

VerbsRegistration::VerbsRegistration(std::shared_ptr<VerbsPort> port, std::span<std::byte> memory, int access)
    : port_(std::move(port)),
      bytes_(memory.size()),
      region_(register_memory(verbs_library(), port_->domain(), memory.data(), memory.size(), access)) {
  if (region_ == nullptr) throw Error(ANELLO_ERR_RESOURCE, text(port_->name(), ": ", why_not_locked(errno, bytes_)));
  local_key_ = region_->lkey;
  remote_key_ = region_->rkey;
}

VerbsRegistration::~VerbsRegistration() { end(); }

void VerbsRegistration::end() {
  if (in_forked_child()) return;
  const std::lock_guard held(mutex_);
  if (region_ != nullptr) verbs_library().dereg_mr(std::exchange(region_, nullptr));
}

VerbsRegistrations::VerbsRegistrations(std::shared_ptr<VerbsPort> port, std::int64_t most)
    : port_(std::move(port)), most_(most < 0 ? UINT64_MAX : std::uint64_t(most)) {
  memory::add_region_user(*this);
}

VerbsRegistrations::~VerbsRegistrations() {
  if (!in_forked_child()) memory::remove_region_user(*this);
}

// The table of regions is asked without the lock: it calls region_ends with its own.
VerbsRegistrations::Held VerbsRegistrations::of(const memory::RegionSpot& spot, VerbsAccess access) {
  if (spot.region == 0 || most_ == 0) return nullptr;
  const Name name{spot.region, access};
  {
    const std::lock_guard held(mutex_);
    if (const auto known = entries_.find(name); known != entries_.end()) {
      known->second.used = ++clock_;
      return known->second.held;
    }
    if (refused_.contains(name)) return nullptr;
  }
  const std::span<std::byte> memory = memory::memory_of_region(spot.region);
  if (memory.empty()) return nullptr;
  const std::lock_guard held(mutex_);
  if (!make_room(memory.size())) return nullptr;
  Held made = make(memory, access);
  if (made == nullptr) {
    refused_.insert(name);
    return nullptr;
  }
  entries_[name] = {made, ++clock_};
  bytes_ += memory.size();
  return made;
}

VerbsRegistrations::Held VerbsRegistrations::make(std::span<std::byte> memory, VerbsAccess access) {
  const int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                    (access == VerbsAccess::peers_store ? IBV_ACCESS_REMOTE_WRITE : 0);
  while (true) {
    try {
      Held made = std::make_shared<VerbsRegistration>(port_, memory, flags);
      ++made_;
      return made;
    } catch (const Error& error) {
      if (let_go_of_oldest()) continue;
      if (!std::exchange(has_told_, true))
        log::warn(-1, "verbs copies messages in memory of ", memory.size() / 1024, " KiB: ", error.text());
      return nullptr;
    }
  }
}

bool VerbsRegistrations::make_room(std::size_t bytes) {
  if (bytes > std::min(most_, port_->limits().region_bytes)) return false;
  while (bytes_ > most_ - bytes) {
    if (!let_go_of_oldest()) return false;
  }
  return true;
}

// False: all are in use.
bool VerbsRegistrations::let_go_of_oldest() {
  auto oldest = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    if (each->second.held.use_count() > 1) continue;
    if (oldest == entries_.end() || each->second.used < oldest->second.used) oldest = each;
  }
  if (oldest == entries_.end()) return false;
  bytes_ -= oldest->second.held->bytes();
  entries_.erase(oldest);
  return true;
}

void VerbsRegistrations::end(std::uint32_t remote_key) {
  const std::lock_guard held(mutex_);
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    if (each->second.held->remote_key() != remote_key) continue;
    each->second.held->end();
    bytes_ -= each->second.held->bytes();
    entries_.erase(each);
    return;
  }
}

void VerbsRegistrations::region_ends(std::uint64_t region) {
  if (in_forked_child()) return;
  const std::lock_guard held(mutex_);
  const auto is_of_it = [region](const Name& name) { return name.first == region; };
  std::erase_if(entries_, [&](const auto& each) {
    if (!is_of_it(each.first)) return false;
    bytes_ -= each.second.held->bytes();
    return true;
  });
  refused_.clear();
}

std::size_t VerbsRegistrations::registered_bytes() const {
  const std::lock_guard held(mutex_);
  return bytes_;
}

}  // namespace anello::transport
