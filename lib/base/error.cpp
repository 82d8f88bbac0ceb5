#include "base/error.h"

#include "base/text.h"

#include <system_error>

namespace anello {

std::string system_text(const char* call, int error_number) {
  return text(call, ": ", std::generic_category().message(error_number), " (errno ", error_number, ")");
}

Error system_error(const char* call, int error_number) {
  return {ANELLO_ERR_SYSTEM, system_text(call, error_number)};
}

}  // namespace anello
