#pragma once
// Which processors a thread may use, as a test has it.
#include <vector>

#include <sched.h>

namespace anello::test {

inline std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return allowed;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) allowed.push_back(processor);
  return allowed;
}

// Binds the calling thread to this one alone, as the kernel numbers them.
inline bool bind_to(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return ::sched_setaffinity(0, sizeof one, &one) == 0;
}

}  // namespace anello::test
