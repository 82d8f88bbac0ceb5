#pragma once
// Small files through which the kernel reports state. They may be missing.
#include <string>

namespace anello {

// The line without its end; empty if the file cannot be read.
std::string first_line(const std::string& path);

}  // namespace anello
