#pragma once
// What is taken away from a program to find the smallest that still fails. It travels on the command line, so that a
// fresh process makes the same smaller program from the same seed.
#include "model/program.h"

#include <optional>
#include <set>

namespace anello::model {

struct Cut {
  std::optional<std::vector<int>> steps;  // those kept, by id
  int ranks = 0;                          // of the program, the first ones; 0: all
  std::size_t most_elements = 0;          // of a count; 0: as generated
  std::set<std::string> without;          // of kFeatures

  static const std::vector<std::string> kFeatures;
  // "--steps 1,2 --ranks-kept 3 ..": as options of the program; empty where nothing is cut.
  std::vector<std::string> arguments() const;
  void apply(Program& program) const;
};

}  // namespace anello::model
