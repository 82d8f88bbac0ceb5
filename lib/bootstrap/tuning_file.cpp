#include "bootstrap/tuning_file.h"

#include "base/machine.h"
#include "base/text.h"
#include "base/unique_fd.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace anello::bootstrap {
namespace {

// Empty: there is no such file. If the file cannot be used, `problem` says why.
std::optional<control::TuningFile> read(const std::string& path, bool asked_for) {
  control::TuningFile file;
  file.path = path;
  // Do not wait for a pipe.
  const UniqueFd descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) {
    if (!asked_for) return std::nullopt;
    file.problem = std::strerror(errno);
    return file;
  }
  std::string buffer(control::TuningFile::kMostBytes + 1, '\0');
  while (file.text.size() < buffer.size()) {
    const ssize_t got = ::read(descriptor.get(), buffer.data(), buffer.size() - file.text.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) file.problem = std::strerror(errno);
    if (got <= 0) break;
    file.text.append(buffer, 0, std::size_t(got));
  }
  if (file.text.size() > control::TuningFile::kMostBytes) {
    file.text.clear();
    file.problem = text("it has more than ", control::TuningFile::kMostBytes, " bytes");
  }
  file.machine = machine_name();
  return file;
}

}  // namespace

control::TuningFile find_tuning(const Config& config, const Lookup& lookup) {
  if (config.tuning == "none") return {};
  if (!config.tuning.empty()) return *read(config.tuning, true);
  const auto value = [&](const char* name) {
    const char* const found = lookup(name);
    return std::string(found == nullptr ? "" : found);
  };
  std::vector<std::string> places;
  if (const std::string own = value("XDG_CONFIG_HOME"); !own.empty()) {
    places.push_back(own + "/anello/tuning");
  } else if (const std::string home = value("HOME"); !home.empty()) {
    places.push_back(home + "/.config/anello/tuning");
  }
  places.push_back("/etc/anello/tuning");
  for (const std::string& place : places) {
    if (const auto file = read(place, false)) return *file;
  }
  return {};
}

}  // namespace anello::bootstrap
