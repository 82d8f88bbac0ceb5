#pragma once
// The parsed command line: a call, the placement of its ranks, and the output to show.
#include "schedule/choose.h"
#include "schedule/parts.h"
#include "schedule/predict.h"

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace anello::plan {

struct Request {
  std::string collective;
  std::size_t count = 16;
  std::size_t element_bytes = 4;
  schedule::Counts counts_given;  // by rank; empty: count for each
  int root = 0;
  bool in_place = false;
  bool average = false;
  bool accumulate = false;
  bool invariant = false;

  int ranks = 4;
  bool network = false;
  std::vector<int> per_host;  // ranks on each host; empty: one host, or one for each rank
  bool round_robin = false;
  bool oversubscribed = false;
  int bound_to = 0;                     // the number of processors to which ranks are bound in turn; 0: ranks are not
                                        // bound
  std::size_t board_bytes = 16 * 1024;  // as in the arena
  bool no_staging = false;
  schedule::Reach reach = schedule::Reach::none;

  // For predictions; -1: typical ones.
  double latency_us = -1, gigabits = -1;
  double inside_latency_us = -1, inside_gigabits = -1;

  std::string algorithm;
  std::string tuning;           // a file
  std::size_t chunk = 0;        // elements
  std::size_t chunk_bytes = 0;  // as ANELLO_CHUNK_BYTES
  bool json = false;

  schedule::Call call() const;
  // By rank; empty if the collective's parts do not differ in count.
  schedule::Counts counts() const;
  // "16 elements", "0 to 7 elements".
  std::string elements() const;
  schedule::Topology topology() const;
  // Throws Error for a table that cannot be read.
  schedule::Wish wish() const;
  schedule::Cost cost() const;
};

// Adds the options that describe the call and its placement; request must outlive app.
void add_options(CLI::App& app, Request& request);
// "" or the reason why the request is invalid.
std::string why_not(const Request& request);

}  // namespace anello::plan
