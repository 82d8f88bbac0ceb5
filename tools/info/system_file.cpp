#include "info/system_file.h"

#include <array>
#include <cstdio>
#include <fstream>

namespace info {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

std::string field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == name) return trimmed(line.substr(colon + 1));
  }
  return "";
}

std::string chosen(const std::string& line) {
  const auto begin = line.find('[');
  const auto end = line.find(']');
  return begin == std::string::npos || end < begin ? line : line.substr(begin + 1, end - begin - 1);
}

std::string cgroup_limit(const std::string& file) {
  std::ifstream membership("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(membership, line);) {
    if (line.rfind("0::", 0) == 0) group = line.substr(3);
  }
  while (true) {
    const std::string limit = first_line("/sys/fs/cgroup" + group + "/" + file);
    if (!limit.empty() && limit.rfind("max", 0) != 0) return limit;
    const auto slash = group.rfind('/');
    if (slash == std::string::npos) return "";
    group.erase(slash);
  }
}

std::string in_units(double bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text.data();
}

}  // namespace info
