#include "transports/verbs/registrations.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "device/dma_buf.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace anello::transport {

namespace {

constexpr std::size_t kMostRefused = 1024, kMostTold = 16;

int flags_of(VerbsAccess access) {
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
         (access == VerbsAccess::peers_store ? IBV_ACCESS_REMOTE_WRITE : 0);
}

// In order, unlike memory of the host: nobody has seen yet what a device makes of relaxed stores.
ibv_mr* register_allocation(const VerbsDomain& domain, const device::Device& device,
                            const device::Allocation& allocation, int access) {
  const device::DmaBuf dma_buf = device::dma_buf_of(device, allocation);
  ibv_mr* const made = domain.library.reg_dma_buf(domain.domain, dma_buf.offset, allocation.bytes, allocation.start,
                                                  dma_buf.file.get(), access);
  if (made != nullptr) return made;
  const int why_not = errno;
  const bool is_full = why_not == ENOMEM || why_not == EAGAIN;
  throw Error(is_full ? ANELLO_ERR_RESOURCE : ANELLO_ERR_SYSTEM,
              text(domain.name, ": ", system_text("ibv_reg_dmabuf_mr", why_not),
                   why_not == EOPNOTSUPP ? " (the adapter's driver or the kernel has no dma-bufs)" : ""));
}

}  // namespace

VerbsDomain VerbsDomain::of(const std::shared_ptr<VerbsPort>& port) {
  return {verbs_library(), port->domain(), port->name(), port->limits().region_bytes, port};
}

VerbsRegistration::VerbsRegistration(const VerbsDomain& domain, std::span<std::byte> memory, int access)
    : domain_(domain),
      begin_(reinterpret_cast<std::uintptr_t>(memory.data())),
      bytes_(memory.size()),
      region_(register_memory(domain.library, domain.domain, memory.data(), memory.size(), access)) {
  if (region_ == nullptr) throw Error(ANELLO_ERR_RESOURCE, text(domain.name, ": ", why_not_locked(errno, bytes_)));
  local_key_ = region_->lkey;
  remote_key_ = region_->rkey;
}

VerbsRegistration::VerbsRegistration(const VerbsDomain& domain, const device::Device& device,
                                     const device::Allocation& allocation, int access)
    : domain_(domain),
      begin_(allocation.start),
      bytes_(allocation.bytes),
      device_(&device),
      allocation_(allocation),
      region_(register_allocation(domain, device, allocation, access)) {
  local_key_ = region_->lkey;
  remote_key_ = region_->rkey;
}

VerbsRegistration::~VerbsRegistration() { end(); }

bool VerbsRegistration::is_there() const { return device_ == nullptr || device::is_there(*device_, allocation_); }

int VerbsRegistration::stores_are_seen() const {
  if (device_ == nullptr) return 0;
  try {
    device::stores_are_seen(*device_);
    return 0;
  } catch (const Error& error) {
    log::info(-1, "a message in the memory of device ", device_->number(), " is sent again: ", error.text());
    return EIO;
  }
}

void VerbsRegistration::end() {
  if (in_forked_child()) return;
  const std::lock_guard held(mutex_);
  if (region_ != nullptr) domain_.library.dereg_mr(std::exchange(region_, nullptr));
}

VerbsRegistrations::VerbsRegistrations(const std::shared_ptr<VerbsPort>& port, std::int64_t most)
    : VerbsRegistrations(VerbsDomain::of(port), most, port->settings().dma_buf) {}

VerbsRegistrations::VerbsRegistrations(VerbsDomain domain, std::int64_t most, bool takes_devices)
    : domain_(std::move(domain)), most_(most < 0 ? UINT64_MAX : std::uint64_t(most)), takes_devices_(takes_devices) {
  memory::add_region_user(*this);
}

VerbsRegistrations::~VerbsRegistrations() {
  if (!in_forked_child()) memory::remove_region_user(*this);
}

VerbsRegistrations::Held VerbsRegistrations::of(const memory::Buffer& buffer, VerbsAccess access) {
  if (most_ == 0) return nullptr;
  const bool is_on_device = buffer.space.kind == memory::Space::Kind::device;
  return is_on_device ? of_allocation(buffer, access) : of_region(buffer.spot, access);
}

// The table of regions is asked without the lock: it calls region_ends with its own.
VerbsRegistrations::Held VerbsRegistrations::of_region(const memory::RegionSpot& spot, VerbsAccess access) {
  if (spot.region == 0) return nullptr;
  const Name name{What::region, spot.region, access};
  {
    const std::lock_guard held(mutex_);
    if (Held known; knows(name, &known)) return known;
  }
  const std::span<std::byte> memory = memory::memory_of_region(spot.region);
  if (memory.empty()) return nullptr;
  const std::lock_guard held(mutex_);
  try {
    return add(name, memory.size(),
               [&] { return std::make_shared<VerbsRegistration>(domain_, memory, flags_of(access)); });
  } catch (const Error& error) {
    if (!std::exchange(has_told_, true))
      log::warn(-1, "verbs copies messages in memory of ", memory.size() / 1024, " KiB: ", error.text());
    return nullptr;
  }
}

VerbsRegistrations::Held VerbsRegistrations::of_allocation(const memory::Buffer& buffer, VerbsAccess access) {
  const int number = buffer.space.device;
  const std::lock_guard held(mutex_);
  if (!takes_devices_) return tell_staged(number, "ANELLO_VERBS_DMABUF is not 1");
  if (domain_.library.reg_dma_buf == nullptr)
    return tell_staged(number, "this libibverbs has no ibv_reg_dmabuf_mr, which rdma-core has from version 34 on");
  try {
    const device::Device& device = device::Device::of(number);
    if (const std::string why_not = device::why_no_dma_bufs(device); !why_not.empty())
      return tell_staged(number, why_not);
    const device::Allocation its = device::allocation_of(device, buffer.at, buffer.bytes);
    if (its.id == 0) return tell_staged(number, "a message lies in several allocations (memory mapped in pieces)");
    const Name name{What::allocation, its.id, access};
    if (Held known; knows(name, &known)) return known;
    drop_freed();
    return add(name, its.bytes,
               [&] { return std::make_shared<VerbsRegistration>(domain_, device, its, flags_of(access)); });
  } catch (const Error& error) {
    return tell_staged(number, error.text());
  }
}

VerbsRegistrations::Held VerbsRegistrations::tell_staged(int device, const std::string& why) {
  if (told_.size() < kMostTold && told_.insert(why).second)
    log::info(-1, "verbs stages messages in the memory of device ", device, ": ", why);
  return nullptr;
}

bool VerbsRegistrations::knows(const Name& name, Held* held) {
  if (const auto known = entries_.find(name); known != entries_.end()) {
    known->second.used = ++clock_;
    *held = known->second.held;
    return true;
  }
  return refused_.contains(name);
}

void VerbsRegistrations::refuse(const Name& name) {
  if (refused_.size() >= kMostRefused) refused_.clear();
  refused_.insert(name);
}

// Null: there is no room.
template <class Make>
VerbsRegistrations::Held VerbsRegistrations::add(const Name& name, std::size_t bytes, Make&& make) {
  if (!make_room(bytes)) return nullptr;
  while (true) {
    try {
      Held made = make();
      ++made_;
      entries_[name] = {made, ++clock_};
      bytes_ += bytes;
      return made;
    } catch (const Error& error) {
      if (error.code() == ANELLO_ERR_RESOURCE && let_go_of_oldest()) continue;
      refuse(name);
      throw;
    }
  }
}

bool VerbsRegistrations::make_room(std::size_t bytes) {
  if (bytes > std::min(most_, domain_.region_bytes)) return false;
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

std::optional<VerbsRegistrations::Name> VerbsRegistrations::end(std::uint32_t remote_key) {
  const std::lock_guard held(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [remote_key](const auto& each) {
    return each.second.held->remote_key() == remote_key;
  });
  if (found == entries_.end()) return std::nullopt;
  const Name name = found->first;
  end(found);
  return name;
}

void VerbsRegistrations::end(const Name& name) {
  const std::lock_guard held(mutex_);
  if (const auto found = entries_.find(name); found != entries_.end()) end(found);
}

void VerbsRegistrations::end(std::map<Name, Entry>::iterator entry) {
  entry->second.held->end();
  bytes_ -= entry->second.held->bytes();
  entries_.erase(entry);
}

void VerbsRegistrations::region_ends(std::uint64_t region) {
  if (in_forked_child()) return;
  const std::lock_guard held(mutex_);
  std::erase_if(entries_, [&](const auto& each) {
    if (std::get<What>(each.first) != What::region || std::get<1>(each.first) != region) return false;
    bytes_ -= each.second.held->bytes();
    return true;
  });
  refused_.clear();
}

void VerbsRegistrations::drop_freed() {
  std::erase_if(entries_, [&](const auto& each) {
    if (each.second.held->is_there()) return false;
    each.second.held->end();
    bytes_ -= each.second.held->bytes();
    return true;
  });
}

std::size_t VerbsRegistrations::registered_bytes() const {
  const std::lock_guard held(mutex_);
  return bytes_;
}

}  // namespace anello::transport
