// In place of joiner.cpp in a build without the header of librdmacm.
#include "base/error.h"
#include "transports/verbs/joiner.h"

#include <utility>

namespace anello::transport {

struct VerbsJoiner::Join {};

VerbsJoiner::VerbsJoiner(std::string device, int port, const std::string& /*range*/)
    : device_(std::move(device)), port_(port) {
  throw Error(ANELLO_ERR_SYSTEM,
              "this build of Anello has no iWARP: it was made without librdmacm's header (Debian: librdmacm-dev)");
}
VerbsJoiner::~VerbsJoiner() = default;
bool VerbsJoiner::has_address() const { return false; }
JoinPlace VerbsJoiner::expect(JoinUser& /*user*/, std::uint32_t /*pair*/, int /*reads*/) { return {}; }
void VerbsJoiner::dial(std::uint64_t /*mine*/, const PortAddress& /*peer*/, const JoinPlace& /*its*/, int /*reads*/) {}
std::string VerbsJoiner::why_not(std::uint64_t /*mine*/) { return {}; }
void VerbsJoiner::forget(std::uint64_t /*mine*/) {}

}  // namespace anello::transport
