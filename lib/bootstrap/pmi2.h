#pragma once
// PMI version 2 as Slurm (srun --mpi=pmi2) and MPICH's mpiexec serve it: a line agrees on the version; then each
// command and each answer is six characters with its length in digits, and "cmd=..;name=value;..". The launcher takes
// one initialisation from a process, and Slurm ends the connection at a second: an object serves a process for all its
// life, and MPI cannot use the channel as well.
#include "bootstrap/key_space.h"
#include "bootstrap/pmi_channel.h"

#include <string>
#include <string_view>
#include <utility>

namespace anello::bootstrap {

class Pmi2 final : public KeySpace {
 public:
  // job: KeySpaceAt::job.
  Pmi2(int descriptor, std::string job, int rank) : channel_(descriptor), job_(std::move(job)), rank_(rank) {}

  void put(const std::string& key, const std::string& value, const Deadline& deadline) override;
  std::string get(const std::string& key, const Deadline& deadline) override;
  void barrier(const Deadline& deadline) override;
  void finalise(const Deadline& deadline) override;

 private:
  void initialise(const Deadline& deadline);
  std::string ask(std::string_view command, const std::string& rest, const Deadline& deadline);
  std::string exchange(std::string_view command, const std::string& rest, const Deadline& deadline);

  PmiChannel channel_;
  std::string job_;
  int rank_;
  // Once a question has no answer, the next answer may be the one to it.
  enum class State { fresh, ready, lost } state_ = State::fresh;
};

}  // namespace anello::bootstrap
