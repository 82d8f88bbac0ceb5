// A build without libibverbs' header.
#include "base/error.h"
#include "transports/verbs/ceiling.h"
#include "transports/verbs/transport.h"

namespace anello::transport {

std::unique_ptr<Transport> make_verbs(const VerbsSettings& /*settings*/) {
  throw Error(ANELLO_ERR_SYSTEM, verbs_why_not());
}

std::string verbs_why_not() { return "this Anello was built without verbs: install libibverbs-dev and build it again"; }

std::vector<VerbsPortReport> verbs_ports() { return {{"adapters", "none", verbs_why_not()}}; }

std::string verbs_address() { return {}; }

bool verbs_reaches(const Place& /*a*/, const Place& /*b*/) { return false; }

std::string verbs_why_unreached(const Place& /*a*/, const Place& /*b*/) {
  return "verbs is not in this build of Anello (libibverbs-dev)";
}

VerbsCeiling measure_verbs_ceiling(const VerbsSettings& /*settings*/) { return {.why_not = verbs_why_not()}; }

}  // namespace anello::transport
