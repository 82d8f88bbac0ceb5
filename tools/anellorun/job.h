#pragma once
// What all ranks of one job share: its name, its secret, its meeting place, and the environment that tells them.
#include "anellorun/descriptor.h"
#include "anellorun/options.h"

#include <string>
#include <vector>

namespace anellorun {

class Job {
 public:
  // Draws name and secret and finds a free port of the loopback. Throws std::system_error.
  explicit Job(const Options& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // A sealed memory file with the secret, or a pipe where memory files are not allowed. One for each rank, so that each
  // reads it from its beginning.
  Descriptor secret_file() const;
  // "NAME=value" for every variable of rank; secret_fd is the number that secret_file() has in the child.
  std::vector<std::string> environment(int rank, int secret_fd) const;

 private:
  const Options& options_;
  std::string name_;
  std::string address_;  // of the loopback; empty: this host has none
  int port_ = 0;
  unsigned char* const secret_;  // in a page that no core dump contains
};

}  // namespace anellorun
