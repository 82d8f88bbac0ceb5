#pragma once
// The command line.
#include "trainer.h"

#include <string>

namespace fashion {

struct Options {
  Settings settings;
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string json;      // file for the report; empty: none
  std::string timeline;  // file for a drawing of one step; empty: none
  bool quick = false;    // a fifth of the images, once
};

// True if the program continues; else *exit_code is its exit code (0 after --help).
bool parse_options(int argc, char** argv, Options* options, int* exit_code);

}  // namespace fashion
