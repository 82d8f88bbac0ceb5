#pragma once
// The launcher's information for this process, from the environment: anellorun, torchrun, mpirun of Open MPI, MPICH's
// mpiexec, Slurm's srun.
#include "bootstrap/key_space.h"

#include <functional>
#include <optional>
#include <string>

namespace anello::bootstrap {

struct Launch {
  int rank = 0;
  int size = 1;
  bool all_local = false;      // whether all ranks are known to run on one host
  bool several_hosts = false;  // whether the launcher has put some of them on other hosts
  std::string master_host;     // empty: unknown
  int master_port = 0;
  std::string job;            // ANELLO_JOB; empty: unknown
  std::string scheduler_job;  // the launcher's own name for the job, if there is no address; empty: unknown
  KeySpaceAt key_space;       // if the launcher offers one, and the environment no address
  std::string source;         // "RANK and WORLD_SIZE", for messages
};

using Lookup = std::function<const char*(const char* name)>;  // nullptr: not set

// rank, size: the caller's values; -1 means those of the environment. address: whether ranks may meet at MASTER_ADDR,
// which is ignored otherwise. Throws Error: ANELLO_ERR_ARGUMENT.
Launch read_launch(const Lookup& lookup, int rank, int size, bool address = true);

// A name or address that every rank of the job can resolve, as far as the launcher says one; empty: it says none.
std::string launcher_address(const Lookup& lookup);

// For a process that counts as alone: why it may be one of several all the same. Empty: nothing speaks for it.
std::string why_alone(const Lookup& lookup);

}  // namespace anello::bootstrap
