#pragma once
// The data that all ranks of one job share: its name, its secret, its meeting place, and the environment that passes
// them on.
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

  // A sealed memory file with the secret, or a pipe if memory files are not allowed. There is one for each rank, so
  // that each reads it from its beginning.
  Descriptor secret_file() const;
  // Tells ranks which of them have ended, so that no rank waits for an ended rank to join. -1 if memory files are not
  // allowed.
  int ended_file() const { return ended_file_.get(); }
  void note_ended(int rank) {
    if (ended_ != nullptr) ended_[rank] = 1;
  }
  // "NAME=value" for every variable of rank; secret_fd is the number that secret_file() has in the child.
  std::vector<std::string> environment(int rank, int secret_fd) const;

 private:
  void make_ended_file();

  const Options& options_;
  std::string name_;
  std::string address_;  // the loopback address; empty: this host has none
  int port_ = 0;
  unsigned char* const secret_;  // in a page that no core dump contains
  Descriptor ended_file_;
  volatile unsigned char* ended_ = nullptr;  // one byte for each rank, in that file
};

}  // namespace anellorun
