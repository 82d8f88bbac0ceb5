#pragma once
// Files in which the kernel answers: small, there or not.
#include <string>

namespace anello {

// Without its end of line; empty when the file cannot be read.
std::string first_line(const std::string& path);

}  // namespace anello
