#pragma once
// An active port of an adapter, opened, and its protection domain. Lanes and memory of one transport object share it.
#include "transports/verbs/address.h"
#include "transports/verbs/library.h"
#include "transports/verbs/port_events.h"
#include "transports/verbs/settings.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace anello::transport {

// What the device and the port allow.
struct VerbsLimits {
  std::size_t message_bytes = 0;
  std::uint64_t region_bytes = 0;
  int requests = 0;      // of a queue
  int reads_begun = 0;   // under way from one queue pair
  int reads_served = 0;  // at once by one queue pair
};

class VerbsPort {
 public:
  // The first port that the settings allow, that is up and that has an address. Throws Error, which says of every
  // port why it is none.
  static std::shared_ptr<VerbsPort> open(const VerbsSettings& settings);
  // Every port of every adapter in turn, as long as the visitor returns true. port: null if it cannot be used. Throws
  // Error if there is no adapter.
  using Visitor =
      std::function<bool(const std::string& name, const std::shared_ptr<VerbsPort>& port, const std::string& why_not)>;
  static void visit(const VerbsSettings& settings, const Visitor& visitor);
  ~VerbsPort();
  VerbsPort(const VerbsPort&) = delete;
  VerbsPort& operator=(const VerbsPort&) = delete;

  const VerbsSettings& settings() const { return settings_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  int number() const { return number_; }
  int gid_index() const { return gid_index_; }
  const VerbsLimits& limits() const { return limits_; }
  // For texts: "rxe0 port 1".
  const std::string& name() const { return name_; }
  VerbsPortEvents& events() { return events_; }
  // Asked anew: the GID may have moved since.
  PortAddress address() const;

 private:
  VerbsPort(const VerbsSettings& settings, ibv_context* context, int number, std::string name);
  // Throws Error: the port cannot be used.
  void look();
  void choose_gid();
  bool is_usable_gid(int index) const;

  VerbsSettings settings_;
  ibv_context* context_;
  ibv_pd* domain_ = nullptr;
  int number_;
  int gid_index_ = 0;
  VerbsLimits limits_;
  std::string name_;
  VerbsPortEvents events_;
};

// Memory that a port reads, or that peers write, until the object ends. No child of this process gets a copy: a page
// that is shared for copying could move away from the adapter.
class VerbsMemory {
 public:
  // access: ibv_access_flags. Throws Error.
  VerbsMemory(std::shared_ptr<VerbsPort> port, std::size_t bytes, int access);
  ~VerbsMemory();
  VerbsMemory(const VerbsMemory&) = delete;
  VerbsMemory& operator=(const VerbsMemory&) = delete;

  std::byte* data() const { return data_; }
  std::uint32_t local_key() const { return region_->lkey; }
  std::uint32_t remote_key() const { return region_->rkey; }

 private:
  std::shared_ptr<VerbsPort> port_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  ibv_mr* region_ = nullptr;
};

// Why a call that makes an object of an adapter failed, and what to do.
std::string why_not_made(const char* call, int error_number);
// The same for one that locks memory.
std::string why_not_locked(int error_number, std::size_t bytes);

}  // namespace anello::transport
