#pragma once
// What the launcher told this process through the environment: anellorun, torchrun, mpirun of Open MPI, MPICH's
// mpiexec, Slurm's srun.
#include <functional>
#include <optional>
#include <string>

namespace anello::bootstrap {

struct Launch {
  int rank = 0;
  int size = 1;
  bool all_local = false;      // known to run on one host
  bool several_hosts = false;  // the launcher has put some of them elsewhere
  std::string master_host;     // empty: not told
  int master_port = 0;
  std::string job;            // ANELLO_JOB; empty: not told
  std::string scheduler_job;  // the launcher's own name for it, where there is no address; empty: not told
  std::string source;         // "RANK and WORLD_SIZE", for messages
};

using Lookup = std::function<const char*(const char* name)>;  // nullptr: not set

// rank, size: what the caller says, -1 for the environment's. address: whether ranks may meet at MASTER_ADDR, which is
// not looked at else. Throws Error: ANELLO_ERR_ARGUMENT.
Launch read_launch(const Lookup& lookup, int rank, int size, bool address = true);

}  // namespace anello::bootstrap
