#include "anellorun/threads.h"

#include <algorithm>
#include <cstdlib>

namespace anellorun {
namespace {

std::string counted(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

std::vector<Threads> threads_of_ranks(const Share& share, const std::vector<cpu_set_t>& cpus, int usable) {
  const char* const of_shell = std::getenv("OMP_NUM_THREADS");
  const int part = std::max(1, usable / std::max(share.ranks, share.slots));
  std::vector<Threads> all;
  for (int i = 0; i < share.ranks; ++i) {
    const int may_use = cpus.empty() ? usable : CPU_COUNT(&cpus[static_cast<std::size_t>(i)]);
    Threads threads{std::to_string(std::min(may_use, part)), Threads::From::share};
    if (of_shell != nullptr) threads = {of_shell, Threads::From::shell};
    for (const auto& [name, value] : share.program_of(share.first + i).environment) {
      if (name == "OMP_NUM_THREADS") threads = {value, Threads::From::option};
    }
    all.push_back(std::move(threads));
  }
  return all;
}

std::string describe(int rank, const ThreadsNote& note) {
  const std::string who = note.alike ? "each rank" : "rank " + std::to_string(rank);
  const std::string has = who + " has OMP_NUM_THREADS=" + std::to_string(note.threads) + ": ";
  if (note.threads < note.processors / note.ranks)
    return has + std::to_string(note.threads) + " of " + counted(note.processors, "processor") + " (--bind-to)";
  return has + counted(note.processors, "processor") + " for " + counted(note.ranks, "rank");
}

}  // namespace anellorun
