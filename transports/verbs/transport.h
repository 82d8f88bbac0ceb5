#pragma once
// Lanes over InfiniBand and RoCE adapters, by the verbs of rdma-core. The functions exist in every build; in one
// without verbs they say so.
#include "transports/reach.h"
#include "transports/transport.h"
#include "transports/verbs/settings.h"

#include <memory>
#include <string>
#include <vector>

namespace anello::transport {

// Over the ports that the settings choose. Throws Error.
std::unique_ptr<Transport> make_verbs(const VerbsSettings& settings = VerbsSettings::of(Config::get()));
std::string verbs_why_not();
// For people: each port of this machine's adapters, in the order in which they are chosen.
struct VerbsPortReport {
  std::string name;     // "rxe0 port 1"
  std::string what;     // "RoCE, 10.77.0.1, MTU 4096", or "not usable"
  std::string why_not;  // empty if usable
};
// One entry at least: if there is no port, "adapters", "none", and why.
std::vector<VerbsPortReport> verbs_ports();
// The addresses of those ports. Empty if none can be used.
std::string verbs_address();
bool verbs_reaches(const Place& a, const Place& b);
std::string verbs_why_unreached(const Place& a, const Place& b);

}  // namespace anello::transport
