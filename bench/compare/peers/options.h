// The options that compare.py passes to a timing loop.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace compare {

struct Options {
  std::string meeting;    // --meeting FILE: see meeting.h
  std::string out;        // --out FILE: rank 0 appends one JSON line per measurement
  std::string directory;  // --directory DIR: for the library's own rendezvous files; in memory if the host supports it
  std::string setting;    // --setting TEXT: the library interprets it
  std::string transport;  // --transport shm|tcp
  std::string operation = "allreduce";  // --operation NAME: see collectives.h
  std::vector<size_t> sizes;
  double window = 0.15;   // --window SECONDS: for one size and variant
  double batch = 0.002;   // --batch SECONDS: a batch is at least this long, if the values allow it
  double limit = 120;     // --limit SECONDS: for the whole process
  double line_ns = 0;     // --line NS: waits, up to 2 s in total, until a cache line takes about this long
  bool pin = true;        // --pin 0|1: rank r to processor r modulo their number
  size_t processors = 1;  // that the job may use, as they were before this rank was pinned to one
  bool untouched = true;  // --variants untouched,dirty
  bool dirty = true;
};

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--meeting")
      options.meeting = value;
    else if (name == "--out")
      options.out = value;
    else if (name == "--directory")
      options.directory = value;
    else if (name == "--setting")
      options.setting = value;
    else if (name == "--transport")
      options.transport = value;
    else if (name == "--operation")
      options.operation = value;
    else if (name == "--window")
      options.window = std::stod(value);
    else if (name == "--batch")
      options.batch = std::stod(value);
    else if (name == "--limit")
      options.limit = std::stod(value);
    else if (name == "--line")
      options.line_ns = std::stod(value);
    else if (name == "--pin")
      options.pin = value == "1";
    else if (name == "--variants") {
      options.untouched = value.find("untouched") != std::string::npos;
      options.dirty = value.find("dirty") != std::string::npos;
    } else if (name == "--sizes") {
      std::istringstream list(value);
      for (std::string size; std::getline(list, size, ',');) options.sizes.push_back(std::stoull(size));
    } else {
      throw std::runtime_error("unknown option " + name);
    }
  }
  if (argc % 2 == 0) throw std::runtime_error("options come in pairs: --name value");
  if (options.meeting.empty() || options.out.empty() || options.sizes.empty())
    throw std::runtime_error("--meeting, --out and --sizes are needed; bench/compare/compare gives them");
  return options;
}

}  // namespace compare
