#pragma once
// The measurements of one job of ranks: the number of ranks, their connection, their memory; and the results.
#include "schedule/choose.h"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace anello::tune {

struct Job {
  int ranks = 2;
  bool network = false;  // over tcp, else in shared memory
  bool shared = false;   // buffers of anello_mem_alloc, else of malloc
  std::vector<std::string> collectives;
  std::vector<std::size_t> sizes;  // bytes of one rank's payload, rising
  double seconds = 10;             // for everything, if necessary without the largest sizes; 0: the least number of
                                   // rounds
  int rounds = 5;                  // at least
  bool chunks = true;              // also chunks other than the library's
  std::string table;               // text of the table with which the library's own choice is measured; "": none

  schedule::Topology topology() const;
  schedule::Reach reach() const;  // the most that ranks may have
  std::string describe() const;   // "4 ranks, shared memory, anello_mem_alloc"
};

// One way to do a call.
struct Way {
  std::string algorithm;        // "": the library's choice
  std::size_t chunk_bytes = 0;  // 0: the library's
  auto operator<=>(const Way&) const = default;
  std::string name() const;  // "ring", "ring/16384", "library"
};

// For a collective and a size: the time of one call in each round, in microseconds. Ways that were hopeless in the
// first measurement have none. All others have equally many rounds, measured in turn.
using Times = std::map<Way, std::vector<double>>;
struct Measured {
  std::string collective;
  std::size_t bytes = 0;
  Times times;
};

// The call whose payload per rank has about this many bytes.
schedule::Call call_of(const std::string& collective, std::size_t bytes, int ranks);
// All ways to try for it, the library's first.
std::vector<Way> ways_for(const Job& job, const schedule::Call& call);

// This process as a rank of the job; rank 0 prints what run_job reads. Returns an exit code.
int be_a_rank(const std::string& job_as_json);
// Starts the ranks with anellorun. told is called with a line for people from time to time. Throws std::runtime_error.
std::vector<Measured> run_job(const Job& job, const std::function<void(const std::string&)>& told);

}  // namespace anello::tune
