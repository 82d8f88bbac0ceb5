#pragma once
#include <cstdint>
#include <string>

namespace anello {

// The limit on the size of files (ulimit -f) also applies to shared memory, and the kernel ends a process that exceeds
// it with SIGXFSZ. Returns a text that says so if a file may not be this long, and an empty text if it may.
std::string file_limit_forbids(std::uint64_t bytes);

}  // namespace anello
