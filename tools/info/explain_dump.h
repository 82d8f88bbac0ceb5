#pragma once
#include <string>
#include <vector>

namespace info {

// What the ranks' files, or those in these folders, say together, in sentences. Throws std::runtime_error with a
// sentence that names the file.
std::string explain_dump(const std::vector<std::string>& paths);

}  // namespace info
