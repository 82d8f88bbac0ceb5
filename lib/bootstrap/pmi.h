#pragma once
// The key space of an MPI launcher, PMI version 1 as MPICH's mpiexec (Hydra) serves it: lines of text over the
// descriptor PMI_FD. What one rank puts before a barrier, all ranks get after it. The channel is neither initialised
// nor finalised here, which Hydra does not require: a program may use MPI as well, afterwards.
#include "base/clock.h"

#include <string>
#include <string_view>

namespace anello::bootstrap {

class Pmi {
 public:
  // descriptor: stays the caller's, and open. No other thread of the process may use it meanwhile.
  explicit Pmi(int descriptor) : descriptor_(descriptor) {}

  // These wait until the deadline for the launcher's answer. Throw Error (ANELLO_ERR_RENDEZVOUS). value has no spaces,
  // and at most 500 bytes.
  void put(const std::string& key, const std::string& value, const Deadline& deadline);
  std::string get(const std::string& key, const Deadline& deadline);
  // Returns when all ranks of the launcher's job have called it.
  void barrier(const Deadline& deadline);

 private:
  const std::string& space(const Deadline& deadline);
  std::string ask(const std::string& question, std::string_view answer, const Deadline& deadline);

  int descriptor_;
  std::string space_;  // the name of the job's keys; empty: not known yet
};

// The value of a field in "cmd=get_result rc=0 value=x"; empty if it has none.
std::string pmi_field(std::string_view line, std::string_view name);

}  // namespace anello::bootstrap
