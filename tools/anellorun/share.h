#pragma once
// What one host runs of a job: its ranks, numbered one after the other, and the program of each. It is the same whether
// this process starts the ranks itself or an agent on another host does.
#include <string>
#include <utility>
#include <vector>

namespace anellorun {

enum class Binding { none, core, socket, numa };
inline constexpr Binding kLastBinding = Binding::numa;

struct Program {
  int ranks = 0;
  std::vector<std::pair<std::string, std::string>> environment;  // -x, in the order given
  std::vector<std::string> words;                                // its name and its arguments; not empty
};

struct Share {
  std::string host;  // as the user wrote it; empty: this one, which names itself
  int world = 0;     // ranks of the whole job
  int first = 0;     // rank
  int ranks = 0;
  int node = 0;  // the number of this host, of nodes
  int nodes = 1;
  int restarts = 0;  // of the whole job, so far
  int most_restarts = 0;
  // Of an elastic job (roster.h): rank first has this place among so many slots of the host, and ranks are workers,
  // whose numbers may exceed world, the number of ranks at the beginning. slots 0: the job is not elastic.
  int slot = 0;
  int slots = 0;
  Binding binding = Binding::none;
  std::vector<Program> programs;  // of the whole job: the first ranks have the first program

  const Program& program_of(int rank) const {
    std::size_t i = 0;
    for (; i + 1 < programs.size() && rank >= programs[i].ranks; ++i) rank -= programs[i].ranks;
    return programs[i];
  }
  bool elastic() const { return slots > 0; }
  // "anellorun: starting the job anew (1 of 3)"; "" at the first start.
  std::string restart() const {
    if (restarts == 0) return "";
    return "anellorun: starting the job anew (" + std::to_string(restarts) + " of " + std::to_string(most_restarts) +
           ")";
  }
  bool has(int rank) const { return rank >= first && rank < first + ranks; }
};

}  // namespace anellorun
