#include "control/job.h"

#include "base/text.h"

namespace anello::control {

std::string Job::describe(int rank) const {
  if (rank < 0 || rank >= size()) return text("rank ", rank);
  const Member& member = members()[std::size_t(rank)];
  return text("rank ", rank, " (host ", member.host, ", pid ", member.pid, ")");
}

Error Job::own_error(const Error& error) const {
  return Error(error.code(), text(describe(rank()), ": ", error.text()), rank());
}

}  // namespace anello::control
