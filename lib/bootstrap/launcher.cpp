#include "bootstrap/launcher.h"

#include "base/error.h"
#include "base/node_list.h"
#include "base/text.h"

#include <charconv>
#include <cstring>
#include <string_view>

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

constexpr std::size_t kMaxNodes = 1 << 20;

// Of the step that srun has started, else of the whole allocation.
const char* slurm(const Lookup& lookup, const char* of_step, const char* of_job) {
  const char* const value = value_of(lookup, of_step);
  return value != nullptr ? value : value_of(lookup, of_job);
}

std::string first_node(const Lookup& lookup) {
  const char* const list = slurm(lookup, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  if (list == nullptr) return {};
  const NodeList nodes = expand_node_list(list, kMaxNodes);
  return nodes ? nodes.names.front() : std::string();
}

// Where srun's ranks are, and a place on the first node where they can meet: rank 0 runs there. Steps of one node get
// different ports, of which another program may have one.
void read_slurm(const Lookup& lookup, Launch& launch) {
  const char* const nodes = slurm(lookup, "SLURM_STEP_NUM_NODES", "SLURM_NNODES");
  if (nodes != nullptr) {
    launch.all_local = std::string_view(nodes) == "1";
    launch.several_hosts = !launch.all_local;
  }
  if (!launch.several_hosts || value_of(lookup, "SLURM_JOB_ID") == nullptr) return;
  constexpr unsigned kLowest = 20'000, kPorts = 10'000;  // below those that the kernel gives out by itself
  unsigned mix = 0;
  for (const char* const name : {"SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    const char* const value = value_of(lookup, name);
    for (const char digit : std::string_view(value != nullptr ? value : ""))
      mix = 31 * mix + static_cast<unsigned char>(digit);
  }
  launch.master_host = first_node(lookup);
  launch.master_port = static_cast<int>(kLowest + mix % kPorts);
}

}  // namespace

std::string launcher_address(const Lookup& lookup) {
  if (const char* const host = value_of(lookup, "MASTER_ADDR")) return host;
  return value_of(lookup, "SLURM_PROCID") != nullptr ? first_node(lookup) : std::string();
}

std::string why_alone(const Lookup& lookup) {
  const char* const tasks = value_of(lookup, "SLURM_NTASKS");
  if (tasks != nullptr && std::string_view(tasks) != "1") {
    return text("this process is alone, a world of one rank, though its Slurm job has SLURM_NTASKS=", tasks,
                ": srun has not started it. Start it with srun");
  }
  for (const char* const name : {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "FLUX_TASK_RANK", "PALS_RANKID"}) {
    if (const char* const value = value_of(lookup, name)) {
      return text("this process is alone, a world of one rank, though ", name, "=", value,
                  " says that a launcher has started several: it does not say how many. Set RANK and WORLD_SIZE");
    }
  }
  return {};
}

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
  const bool by_pmi = found != nullptr && std::string_view(found->rank) == "PMI_RANK";
  // With --mpi=pmi2, srun sets both.
  const bool by_slurm = value_of(lookup, "SLURM_PROCID") != nullptr &&
                        (by_pmi || (found != nullptr && std::string_view(found->rank) == "SLURM_PROCID"));
  if (by_slurm) read_slurm(lookup, launch);
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
  if (by_pmi && value_of(lookup, "PMI_FD") != nullptr && value_of(lookup, "MASTER_ADDR") == nullptr) {
    const char* const name = value_of(lookup, "PMI_JOBID");
    launch.key_space = {number(lookup, "PMI_FD", 0, 1 << 30), by_slurm ? 2 : 1, name != nullptr ? name : ""};
  }
  if (scheduler_job.empty() && launch.all_local && value_of(lookup, "PMI_FD") != nullptr) {
    const pid_t server = server_behind(number(lookup, "PMI_FD", 0, 1 << 30));
    if (server > 0) scheduler_job = text("of MPI's server, process ", server);
  }
  return launch;
}

}  // namespace anello::bootstrap
