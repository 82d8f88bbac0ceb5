#pragma once
// One rank's process: starts it, and describes its end.
#include "anellorun/descriptor.h"
#include "anellorun/job.h"

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <string>

namespace anellorun {

struct Process {
  int rank = -1;
  pid_t pid = -1;
  Descriptor pidfd;   // readable once the process has ended; empty if the system does not support it
  Descriptor output;  // its output; nonblocking
  Descriptor errors;
  Descriptor messages;  // to and from a rank of an elastic job; nonblocking
  bool ended = false;
  int status = 0;  // as waitpid gives it, once ended
};

// 128 + n for signal n.
int exit_code(int status);
// "ended with signal 9 (Killed)", "ended with exit code 3".
std::string describe_end(int status);

// The program could not be started; code is errno of execvp.
struct CannotStart {
  int code;
  std::string program;
  std::string host;  // empty: this one
};

// Starts rank and returns once its program runs. The child dies with the launcher, however that ends. signals: the mask
// with which the launcher itself was started; cpus: NULL, or the processors for the rank; threads: its
// OMP_NUM_THREADS; input: its standard input, -1: nothing. Throws CannotStart and std::system_error.
Process start(const Share& share, const Job& job, int rank, int input, const sigset_t& signals, const cpu_set_t* cpus,
              const std::string& threads);

}  // namespace anellorun
