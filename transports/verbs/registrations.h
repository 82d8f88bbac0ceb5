#pragma once
// The regions (memory/region.h) that are registered with a port, so that its adapter moves messages from and to them
// without a copy. A registration is made at first use and kept while its region lives and the limit allows; those that
// are not in use make room, the least recently used first. Other memory of the host is never registered: nobody would
// tell this process when its pages change.
//
// Allocations of devices are registered likewise, by their dma-bufs, if the settings ask for it. Nobody tells when one
// is freed: its number, which is never used again, says so before the next one is registered. Until then it keeps its
// memory, and peers can read that.
#include "device/mapped_piece.h"
#include "memory/buffer.h"
#include "memory/region_users.h"
#include "transports/verbs/port.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>

namespace anello::device {
class Device;
}

namespace anello::transport {

// Where memory is registered.
struct VerbsDomain {
  static VerbsDomain of(const std::shared_ptr<VerbsPort>& port);

  const VerbsLibrary& library;
  ibv_pd* domain;
  std::string name;            // for texts
  std::uint64_t region_bytes;  // the most of one registration
  std::shared_ptr<const void> kept;
};

class VerbsRegistration {
 public:
  // access: ibv_access_flags. Both throw Error; ANELLO_ERR_RESOURCE: there may be room for it later.
  VerbsRegistration(const VerbsDomain& domain, std::span<std::byte> memory, int access);
  VerbsRegistration(const VerbsDomain& domain, const device::Device& device, const device::Allocation& allocation,
                    int access);
  ~VerbsRegistration();
  VerbsRegistration(const VerbsRegistration&) = delete;
  VerbsRegistration& operator=(const VerbsRegistration&) = delete;

  std::uintptr_t begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  std::uint32_t local_key() const { return local_key_; }
  std::uint32_t remote_key() const { return remote_key_; }
  // Whether a device's allocation has not been freed.
  bool is_there() const;
  // Called after the adapter has said that it has stored: what it has stored is what its device's later work loads.
  // Returns an errno, or 0.
  int stores_are_seen() const;
  // No adapter reaches the memory any more, whoever keeps this.
  void end();

 private:
  const VerbsDomain domain_;
  const std::uintptr_t begin_;
  const std::size_t bytes_;
  const device::Device* device_ = nullptr;  // null: the host's memory
  const device::Allocation allocation_;
  std::uint32_t local_key_, remote_key_;
  std::mutex mutex_;
  ibv_mr* region_;
};

// What adapters may do with the memory, beside this rank's own.
enum class VerbsAccess : std::uint8_t { peers_load, peers_store };

class VerbsRegistrations final : private memory::RegionUser {
 public:
  using Held = std::shared_ptr<VerbsRegistration>;
  // most: bytes that are registered at once; -1: no limit.
  VerbsRegistrations(const std::shared_ptr<VerbsPort>& port, std::int64_t most);
  VerbsRegistrations(VerbsDomain domain, std::int64_t most, bool takes_devices);
  ~VerbsRegistrations();
  VerbsRegistrations(const VerbsRegistrations&) = delete;
  VerbsRegistrations& operator=(const VerbsRegistrations&) = delete;

  // The registration of the region or the device's allocation that holds the buffer; null if there is none, or if it
  // cannot be registered, for which the log has the reason once. Whoever holds it keeps it registered.
  Held of(const memory::Buffer& buffer, VerbsAccess access);
  // Names memory alike for every port.
  enum class What : std::uint8_t { region, allocation };
  using Name = std::tuple<What, std::uint64_t, VerbsAccess>;  // with the region's identity or the allocation's number
  // End a registration at once: the one with that key, whose name is returned, or the one of that name.
  std::optional<Name> end(std::uint32_t remote_key);
  void end(const Name& name);

  std::size_t registered_bytes() const;
  std::uint64_t made() const { return made_; }

 private:
  void region_ends(std::uint64_t region) override;

  struct Entry {
    Held held;
    std::uint64_t used = 0;
  };
  Held of_region(const memory::RegionSpot& spot, VerbsAccess access);
  Held of_allocation(const memory::Buffer& buffer, VerbsAccess access);
  // Known: the answer is in *held.
  bool knows(const Name& name, Held* held);
  void end(std::map<Name, Entry>::iterator entry);
  template <class Make>
  Held add(const Name& name, std::size_t bytes, Make&& make);
  void refuse(const Name& name);
  bool make_room(std::size_t bytes);
  bool let_go_of_oldest();
  void drop_freed();
  Held tell_staged(int device, const std::string& why);  // null

  const VerbsDomain domain_;
  const std::uint64_t most_;
  const bool takes_devices_;
  mutable std::mutex mutex_;  // regions end on any thread
  std::map<Name, Entry> entries_;
  std::set<Name> refused_;  // not tried again until there is more room
  std::size_t bytes_ = 0;   // of the entries
  std::uint64_t clock_ = 0;
  std::uint64_t made_ = 0;
  bool has_told_ = false;
  std::set<std::string> told_;  // why messages in devices' memory are staged
};

}  // namespace anello::transport
