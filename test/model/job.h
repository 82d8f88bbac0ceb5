#pragma once
// Ranks as processes (of inproc: as threads of one), fresh for each job, that play programs one after the other; who
// starts a job watches it and ends what it started.
#include "model/cut.h"
#include "support/process.h"

namespace anello::model {

struct Job {
  std::string transport;
  int ranks = 1;
  test::Settings settings;  // ANELLO_* variables
  std::vector<std::uint64_t> seeds;
  Cut cut;
  std::string bug;
  int timeout_ms = 20'000;
};

struct Outcome {
  std::size_t passed = 0;  // programs that all ranks have ended well
  std::string trouble;     // "" when all have; else what was said first
  bool failed() const { return !trouble.empty(); }
};

// Runs it. A rank that says nothing for longer than the library's own deadline has hung.
Outcome run(const Job& job);
// The command that repeats it: of the program that failed alone, or of all.
std::string command(const Job& job);
// This process as rank (of inproc: as all ranks); its exit code.
int be_rank(const Job& job, int rank);

}  // namespace anello::model
