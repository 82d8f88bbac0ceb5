#include "bootstrap/launcher.h"

#include "base/error.h"
#include "base/text.h"

#include <charconv>
#include <cstring>

#include <sys/socket.h>
#include <sys/types.h>

namespace anello::bootstrap {
namespace {

struct Names {
  const char* rank;
  const char* size;
  const char* local_size;
};
// The first launcher whose rank and size are both set counts.
constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", nullptr},
};

const char* value_of(const Lookup& lookup, const char* name) {
  const char* const value = name == nullptr ? nullptr : lookup(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

int number(const Lookup& lookup, const char* name, int low, int high) {
  const char* const value = lookup(name);
  int result = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), result);
  if (error != std::errc{} || *end != '\0' || result < low || result > high) {
    throw Error(ANELLO_ERR_ARGUMENT, text(name, "=", value, " must be a whole number from ", low, " to ", high));
  }
  return result;
}

constexpr int kMaxRanks = 1 << 20;

// The process at the other end of the socket over which MPICH's launcher answers its ranks. It is the same for all of a
// job's ranks on this host, even if scripts run between launcher and ranks. 0: there is no such socket.
pid_t server_behind(int descriptor) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) != 0 || own.ss_family != AF_UNIX) return 0;
  ucred peer{};
  length = sizeof peer;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
}

}  // namespace

Launch read_launch(const Lookup& lookup, int rank, int size, bool address) {
  Launch launch;
  const Names* found = nullptr;
  for (const Names& names : kLaunchers) {
    if (value_of(lookup, names.rank) != nullptr && value_of(lookup, names.size) != nullptr) {
      found = &names;
      break;
    }
  }
  if (found != nullptr) {
    launch.size = number(lookup, found->size, 1, kMaxRanks);
    launch.rank = number(lookup, found->rank, 0, launch.size - 1);
    launch.source = text(found->rank, " and ", found->size);
    if (value_of(lookup, found->local_size) != nullptr) {
      launch.all_local = number(lookup, found->local_size, 1, kMaxRanks) == launch.size;
      launch.several_hosts = !launch.all_local;
    }
  } else if (value_of(lookup, "RANK") != nullptr || value_of(lookup, "WORLD_SIZE") != nullptr) {
    if (rank < 0 || size < 0) throw Error(ANELLO_ERR_ARGUMENT, "RANK and WORLD_SIZE must both be set, or neither");
  }
  if (size >= 0) {
    if (size != launch.size) launch.all_local = launch.several_hosts = false;
    launch.size = size;
  }
  if (rank >= 0) launch.rank = rank;
  if (launch.size > kMaxRanks || launch.rank >= launch.size) {
    throw Error(ANELLO_ERR_ARGUMENT, text("rank ", launch.rank, " does not exist in a world of ", launch.size));
  }
  if (const char* const host = address ? value_of(lookup, "MASTER_ADDR") : nullptr) {
    launch.master_host = host;
    if (value_of(lookup, "MASTER_PORT") == nullptr) {
      throw Error(ANELLO_ERR_ARGUMENT, "MASTER_ADDR is set and MASTER_PORT is not");
    }
    launch.master_port = number(lookup, "MASTER_PORT", 1, 65534);
  }
  if (const char* const job = value_of(lookup, "ANELLO_JOB")) launch.job = job;
  // Values that these launchers give to all ranks of a job and to no other.
  std::string& scheduler_job = launch.scheduler_job;
  for (const char* const name : {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    const char* const value = value_of(lookup, name);
    if (value != nullptr) scheduler_job += text(scheduler_job.empty() ? "" : " ", name, "=", value);
  }
  if (scheduler_job.empty() && launch.all_local && value_of(lookup, "PMI_FD") != nullptr) {
    const pid_t server = server_behind(number(lookup, "PMI_FD", 0, 1 << 30));
    if (server > 0) scheduler_job = text("of MPI's server, process ", server);
  }
  return launch;
}

}  // namespace anello::bootstrap
