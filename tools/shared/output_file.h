#pragma once
// Files that a program writes when it is done.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace shared {

// Throws where the file cannot be written: asked before the work whose results it is for. What is in it stays, and one
// that was not there is not there afterwards. Pipes and devices are not touched: a pipe's reader would take it for
// ended.
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
