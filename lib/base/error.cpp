#include "base/error.h"

#include "base/text.h"

#include <system_error>

namespace anello {

std::string system_text(const char* call, int error_number) {
  return text(call, ": ", std::generic_category().message(error_number), " (errno ", error_number, ")");
}

Error system_error(const char* call, int error_number) { return {ANELLO_ERR_SYSTEM, system_text(call, error_number)}; }

const char* result_name(anello_result_t result) {
  switch (result) {
    case ANELLO_OK: return "ANELLO_OK";
    case ANELLO_ERR_ARGUMENT: return "ANELLO_ERR_ARGUMENT";
    case ANELLO_ERR_TYPE: return "ANELLO_ERR_TYPE";
    case ANELLO_ERR_STATE: return "ANELLO_ERR_STATE";
    case ANELLO_ERR_PEER_LOST: return "ANELLO_ERR_PEER_LOST";
    case ANELLO_ERR_MISMATCH: return "ANELLO_ERR_MISMATCH";
    case ANELLO_ERR_TIMEOUT: return "ANELLO_ERR_TIMEOUT";
    case ANELLO_ERR_RENDEZVOUS: return "ANELLO_ERR_RENDEZVOUS";
    case ANELLO_ERR_AUTH: return "ANELLO_ERR_AUTH";
    case ANELLO_ERR_VERSION: return "ANELLO_ERR_VERSION";
    case ANELLO_ERR_ADDRESS: return "ANELLO_ERR_ADDRESS";
    case ANELLO_ERR_RESOURCE: return "ANELLO_ERR_RESOURCE";
    case ANELLO_ERR_TRUNCATE: return "ANELLO_ERR_TRUNCATE";
    case ANELLO_ERR_ABORTED: return "ANELLO_ERR_ABORTED";
    case ANELLO_ERR_FORKED: return "ANELLO_ERR_FORKED";
    case ANELLO_ERR_SYSTEM: return "ANELLO_ERR_SYSTEM";
    case ANELLO_ERR_CORRUPT: return "ANELLO_ERR_CORRUPT";
    case ANELLO_ERR_INTERNAL: return "ANELLO_ERR_INTERNAL";
  }
  return "ANELLO_ERR_UNKNOWN";
}

}  // namespace anello
