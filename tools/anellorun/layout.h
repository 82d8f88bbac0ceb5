#pragma once
// Which ranks a job has and where they run, from what the user wrote.
#include "anellorun/hosts.h"
#include "anellorun/options.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace anellorun {

// A mistake of the user; option: the name of the option, or empty.
struct Mistake : std::runtime_error {
  Mistake(std::string named, const std::string& what) : std::runtime_error(what), option(std::move(named)) {}
  std::string option;
};

struct Wishes {
  std::vector<HostSlots> hosts;  // empty: this one
  int ranks = 0;                 // in all; 0: not said
  int ranks_of_host = 0;         // --nproc-per-node; 0: not said
  int nodes = 1;                 // --nnodes
  int node = 0;
  std::string master;     // --master-addr, --rdzv-endpoint
  int port = 0;           // 0: not said
  bool any_port = false;  // --rdzv-endpoint HOST:0
  bool standalone = false;
  std::vector<Program> programs;  // their ranks: 0 if not said
  Binding binding = Binding::none;
  int most_restarts = 0;
};

// Fills shares, on_agents, others_start_too and place. Throws Mistake. A note for the user, or "".
std::string lay_out(const Wishes& wishes, Options& options);

// What --dry-run prints.
std::string describe(const Options& options);

}  // namespace anellorun
