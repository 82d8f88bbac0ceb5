#pragma once
// The command line.
#include "settings.h"

#include <string>

namespace parameter_server {

struct Options {
  Settings settings;
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string json;    // file for the report; empty: none
  bool quick = false;  // a fifth of the images, once
};

// True if the program continues; else *exit_code is its exit code (0 after --help).
bool parse_options(int argc, char** argv, Options* options, int* exit_code);

}  // namespace parameter_server
