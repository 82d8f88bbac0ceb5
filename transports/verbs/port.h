#pragma once
// An active port of an adapter, opened, and its protection domain. Lanes and memory of one transport object share it.
// Each is a rail of the transport's lanes.
#include "transports/verbs/address.h"
#include "transports/verbs/joiner.h"
#include "transports/verbs/library.h"
#include "transports/verbs/port_events.h"
#include "transports/verbs/settings.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  // The ports that the settings allow, that are up and that have an address, at most so many, in the order in which
  // the settings name them, and then in which adapters are listed. At least one, or throws Error, which says of every
  // port why it is none.
  static std::vector<std::shared_ptr<VerbsPort>> open_all(const VerbsSettings& settings, std::size_t most);
  // The first of them.
  static std::shared_ptr<VerbsPort> open(const VerbsSettings& settings) { return open_all(settings, 1).front(); }
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
  int place() const { return place_; }  // in the settings' list of devices
  const VerbsLimits& limits() const { return limits_; }
  // For texts: "rxe0 port 1".
  const std::string& name() const { return name_; }
  VerbsPortEvents& events() { return events_; }
  // Its queue pairs are joined by this; null: it is no port of iWARP.
  VerbsJoiner* joiner() const { return joiner_.get(); }
  bool is_iwarp() const { return joiner_ != nullptr; }
  // Of memory to which a peer writes with numbers.
  int ring_access() const;
  // Asked anew: the GID may have moved since.
  PortAddress address() const;
  // Chooses the GID anew, after the link or the addresses have changed. False: the port cannot be used now.
  bool refresh();

 private:
  VerbsPort(const VerbsSettings& settings, ibv_context* context, int number, std::string name);
  // Throws Error: the port cannot be used.
  void look();
  void check_link(const ibv_port_attr& attributes) const;
  void choose_gid();
  bool is_usable_gid(int index) const;

  VerbsSettings settings_;
  ibv_context* context_;
  ibv_pd* domain_ = nullptr;
  int number_;
  int gid_index_ = 0;
  int place_ = 0;
  VerbsLimits limits_;
  std::string name_;
  VerbsPortEvents events_;
  std::unique_ptr<VerbsJoiner> joiner_;
};

using VerbsPorts = std::vector<std::shared_ptr<VerbsPort>>;

// Why a call that makes an object of an adapter failed, and what to do.
std::string why_not_made(const char* call, int error_number);
// The same for one that locks memory.
std::string why_not_locked(int error_number, std::size_t bytes);

}  // namespace anello::transport
