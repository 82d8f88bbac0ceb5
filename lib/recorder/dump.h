#pragma once
// A snapshot as a file: JSON, one file for each rank and communicator.
#include "recorder/snapshot.h"

#include <string>

namespace anello::recorder {

// The most bytes of such a file.
inline constexpr std::size_t kMostDumpBytes = std::size_t{4} << 20;

// "anello-1f0c44d2a57b03e9-rank3-comm1.json": the job, the rank in it, and the communicator.
std::string dump_name(const Snapshot& taken);
std::string as_json(const Snapshot& taken);
// Throws anello::Error with a sentence that says what is wrong.
Snapshot from_json(const std::string& json);
// Makes the folder if its parent is there, replaces an earlier file of that name, and returns the path. Throws
// anello::Error.
std::string write_dump(const Snapshot& taken, const std::string& folder);

}  // namespace anello::recorder
