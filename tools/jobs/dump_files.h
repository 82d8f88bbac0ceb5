#pragma once
// Reads what ranks have written to ANELLO_DUMP_DIR.
#include "recorder/snapshot.h"

#include <string>
#include <vector>

namespace jobs {

// Each path is a file, or a folder with files of that kind. Throws std::runtime_error with a sentence that names the
// path.
std::vector<anello::recorder::Snapshot> read_dumps(const std::vector<std::string>& paths);

}  // namespace jobs
