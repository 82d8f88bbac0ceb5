#pragma once
#include <cstdint>
#include <string>

namespace anello {

// The limit on the size of files (ulimit -f) counts for shared memory, too, and the kernel ends a process that goes
// beyond it with SIGXFSZ. Says so where a file may not be this long; empty where it may.
std::string file_limit_forbids(std::uint64_t bytes);

}  // namespace anello
