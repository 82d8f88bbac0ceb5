#pragma once
// Small files of /proc and /sys. A missing file is not an error: its value is "".
#include <string>

namespace info {

// The first line, without the spaces around it.
std::string first_line(const std::string& path);
// The text after "name:" in a file of such lines: field("/proc/meminfo", "MemTotal") is "16384 kB".
std::string field(const std::string& path, const std::string& name);
// The word in brackets: "always [madvise] never" gives "madvise".
std::string chosen(const std::string& line);
// A file of this process's own cgroup (version 2), or of the nearest cgroup above that has the file with a value other
// than "max".
std::string cgroup_limit(const std::string& file);

// "15.6 GiB".
std::string in_units(double bytes);

}  // namespace info
