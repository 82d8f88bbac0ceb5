#pragma once
// OMP_NUM_THREADS of each rank: what it is, where it comes from, and what is said about it.
#include "anellorun/share.h"

#include <sched.h>

#include <string>
#include <vector>

namespace anellorun {

struct Threads {
  enum class From { share, shell, option };  // its part of the processors; this process's environment; -x
  std::string value;
  From from;
  bool operator==(const Threads&) const = default;
};

// Of each rank of the share on this host. cpus: as placement() gives it; usable: processors of this host.
std::vector<Threads> threads_of_ranks(const Share& share, const std::vector<cpu_set_t>& cpus, int usable);

// What a rank that nobody has given a value got.
struct ThreadsNote {
  int ranks = 1;       // that share the host's processors
  int processors = 1;  // of the host
  int threads = 1;
  bool alike = true;  // all ranks here have it
};

// "each rank has OMP_NUM_THREADS=4: 8 processors for 2 ranks"
std::string describe(int rank, const ThreadsNote& note);

}  // namespace anellorun
