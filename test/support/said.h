#pragma once
// What the library writes to standard error.
#include "base/unique_fd.h"

#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace anello::test {

// While it lives.
class Said {
 public:
  Said() : file_(::memfd_create("said", MFD_CLOEXEC)), before_(::fcntl(2, F_DUPFD_CLOEXEC, 3)) {
    ::dup2(file_.get(), 2);
  }
  ~Said() { ::dup2(before_.get(), 2); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;
  int lines_with(const std::string& words) const {
    std::string all(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_END)), '\0');
    const ssize_t got = ::pread(file_.get(), all.data(), all.size(), 0);
    if (got != static_cast<ssize_t>(all.size())) throw std::runtime_error("pread");
    int lines = 0;
    for (std::size_t at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) ++lines;
    return lines;
  }

 private:
  UniqueFd file_;
  UniqueFd before_;
};

}  // namespace anello::test
