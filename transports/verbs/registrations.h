#pragma once
// The regions (memory/region.h) that are registered with a port, so that its adapter moves messages from and to them
// without a copy. A registration is made at first use and kept while its region lives and the limit allows; those that
// are not in use make room, the least recently used first. Other memory is never registered: nobody would tell this
// process when its pages change.
#include "memory/buffer.h"
#include "memory/region_users.h"
#include "transports/verbs/port.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>

namespace anello::transport {

class VerbsRegistration {
 public:
  // access: ibv_access_flags. Throws Error.
  VerbsRegistration(std::shared_ptr<VerbsPort> port, std::span<std::byte> memory, int access);
  ~VerbsRegistration();
  VerbsRegistration(const VerbsRegistration&) = delete;
  VerbsRegistration& operator=(const VerbsRegistration&) = delete;

  std::size_t bytes() const { return bytes_; }
  std::uint32_t local_key() const { return local_key_; }
  std::uint32_t remote_key() const { return remote_key_; }
  // No adapter reaches the memory any more, whoever keeps this.
  void end();

 private:
  std::shared_ptr<VerbsPort> port_;
  std::size_t bytes_;
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
  VerbsRegistrations(std::shared_ptr<VerbsPort> port, std::int64_t most);
  ~VerbsRegistrations();
  VerbsRegistrations(const VerbsRegistrations&) = delete;
  VerbsRegistrations& operator=(const VerbsRegistrations&) = delete;

  // The registration of the region that holds the spot; null if there is none, or if it cannot be registered, for
  // which the log has the reason once. Whoever holds it keeps it registered.
  Held of(const memory::RegionSpot& spot, VerbsAccess access);
  // Ends those with this key at once.
  void end(std::uint32_t remote_key);

  std::size_t registered_bytes() const;
  std::uint64_t made() const { return made_; }

 private:
  void region_ends(std::uint64_t region) override;

  using Name = std::pair<std::uint64_t, VerbsAccess>;  // the region's identity
  struct Entry {
    Held held;
    std::uint64_t used = 0;
  };
  Held make(std::span<std::byte> memory, VerbsAccess access);
  bool make_room(std::size_t bytes);
  bool let_go_of_oldest();

  const std::shared_ptr<VerbsPort> port_;
  const std::uint64_t most_;
  mutable std::mutex mutex_;  // regions end on any thread
  std::map<Name, Entry> entries_;
  std::set<Name> refused_;  // not tried again until there is more room
  std::size_t bytes_ = 0;   // of the entries
  std::uint64_t clock_ = 0;
  std::uint64_t made_ = 0;
  bool has_told_ = false;
};

}  // namespace anello::transport
