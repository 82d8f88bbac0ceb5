#pragma once
// Keys and values that an MPI launcher keeps for the ranks of its job: what one rank puts before a barrier, all ranks
// get after it. There are two wires for it, PMI-1 and PMI-2, both over the descriptor PMI_FD.
#include "base/clock.h"

#include <memory>
#include <string>

namespace anello::bootstrap {

class KeySpace {
 public:
  virtual ~KeySpace() = default;
  // These wait until the deadline for the launcher's answer. Throw Error (ANELLO_ERR_RENDEZVOUS). value has no spaces
  // or semicolons, and at most 500 bytes.
  virtual void put(const std::string& key, const std::string& value, const Deadline& deadline) = 0;
  virtual std::string get(const std::string& key, const Deadline& deadline) = 0;
  // Returns when all ranks of the launcher's job have called it.
  virtual void barrier(const Deadline& deadline) = 0;
  // Says that this process needs it no more, which ends the connection.
  virtual void finalise(const Deadline& deadline) = 0;
};

// Where the launcher offers one.
struct KeySpaceAt {
  int descriptor = -1;  // -1: nowhere
  int version = 1;      // of PMI
  std::string job;      // the launcher's name for the job (PMI_JOBID), which PMI-2 sends; empty: it has none
  explicit operator bool() const { return descriptor >= 0; }
};

// The descriptor stays the caller's, and open. No other thread of the process may use it meanwhile.
std::unique_ptr<KeySpace> open_key_space(const KeySpaceAt& at, int rank);
// The one that this process uses for all its life. It is finalised when the process exits: mpiexec kills the other
// ranks of the host, without a word, when one ends before that.
KeySpace& key_space_of_process(const KeySpaceAt& at, int rank);

// Whether an MPI library or a PMI client of its own is in this process, which may use the descriptor at any time.
bool has_mpi();

}  // namespace anello::bootstrap
