#include "control/process_state.h"

#include "base/text.h"

#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace anello::control {

// Reads only the first thread: for the whole process, the kernel would sum the statistics of all threads.
ProcessState::ProcessState(std::int64_t pid)
    : status_(::open(text("/proc/", pid, "/task/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC)) {}

bool ProcessState::stopped() const {
  char line[128];  // "pid (name) state ...", the name of at most 64
  if (!status_) return false;
  const ssize_t got = ::pread(status_.get(), line, sizeof line, 0);
  if (got <= 0) return false;
  const std::string_view read(line, static_cast<std::size_t>(got));
  const std::size_t name_end = read.rfind(") ");
  return name_end != std::string_view::npos && name_end + 2 < read.size() &&
         (read[name_end + 2] == 'T' || read[name_end + 2] == 't');
}

}  // namespace anello::control
