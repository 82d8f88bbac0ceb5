#pragma once
// PMI version 1 as MPICH's mpiexec (Hydra) serves it: lines of text. The channel is not initialised here, which Hydra
// does not require: a program may use MPI as well, afterwards.
#include "bootstrap/key_space.h"
#include "bootstrap/pmi_channel.h"

#include <string>
#include <string_view>

namespace anello::bootstrap {

class Pmi final : public KeySpace {
 public:
  explicit Pmi(int descriptor) : channel_(descriptor) {}

  void put(const std::string& key, const std::string& value, const Deadline& deadline) override;
  std::string get(const std::string& key, const Deadline& deadline) override;
  void barrier(const Deadline& deadline) override;
  void finalise(const Deadline& deadline) override;

 private:
  const std::string& space(const Deadline& deadline);
  std::string ask(const std::string& question, std::string_view answer, const Deadline& deadline);

  PmiChannel channel_;
  std::string space_;  // the name of the job's keys; empty: not known yet
};

// The value of a field in "cmd=get_result rc=0 value=x"; empty if it has none.
std::string pmi_field(std::string_view line, std::string_view name, char between = ' ');

}  // namespace anello::bootstrap
