#include "base/descriptor_table.h"

#include "base/unique_fd.h"

#include <algorithm>
#include <atomic>

#include <fcntl.h>
#include <sys/resource.h>

namespace anello {

void make_room_for_descriptors(int count) {
  static std::atomic<int> made{0};
  if (made.load(std::memory_order_relaxed) >= count) return;
  made.store(count, std::memory_order_relaxed);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, rlim_t(count)));
  const UniqueFd any(::open("/", O_PATH | O_CLOEXEC));
  if (any && most > 0) UniqueFd(::fcntl(any.get(), F_DUPFD_CLOEXEC, most - 1));
}

}  // namespace anello
