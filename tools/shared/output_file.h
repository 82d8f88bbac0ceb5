#pragma once
// Files that a program writes at its end.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace shared {

// Throws if the file cannot be written. Call it before the work whose results the file gets. It does not change an
// existing file, and leaves no new file behind. It does not touch pipes and devices: a pipe's reader would see the end
// of the pipe.
inline void check_writable(const std::string& path) {
  struct stat known {};
  const bool exists = stat(path.c_str(), &known) == 0;
  if (exists && !S_ISREG(known.st_mode) && !S_ISDIR(known.st_mode)) return;
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | (exists ? 0 : O_CREAT | O_EXCL), 0666);
  if (file < 0) throw std::runtime_error("cannot write '" + path + "': " + std::strerror(errno));
  close(file);
  if (!exists) unlink(path.c_str());
}

}  // namespace shared
