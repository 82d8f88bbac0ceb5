#include "base/file_limit.h"

#include "base/text.h"

#include <sys/resource.h>

namespace anello {

std::string file_limit_forbids(std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return {};
  return text("this process may have no file, and so no shared memory, of more than ", limit.rlim_cur,
              " bytes: raise the limit on the size of files (ulimit -f)");
}

}  // namespace anello
