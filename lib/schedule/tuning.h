#pragma once
// A table of rules that was measured on a machine (anello-tune), as text that people can read and change:
//
//   anello-tuning 1
//   machine AMD EPYC 7B13 64-Core Processor, 2 processors
//   # collective  where   reach  ranks  from   up-to   algorithm  chunk
//   allreduce     memory  none   2      8193   65536   pairwise   auto     # 0.81 of doubling's time
//
// from and up-to are bytes of one rank's payload, both inclusive; up-to and the upper end of ranks (2, 3-5, 9-any) may
// be "any"; a chunk is in bytes, or "auto" for the value of the library's own table. The first rule that applies and
// fits is used, before the rules of the library.
#include "schedule/choose.h"

#include <string>
#include <string_view>
#include <vector>

namespace anello::schedule {

inline constexpr std::size_t kMostTuningBytes = 32 * 1024;

struct Tuning {
  std::string machine;  // machine_name() of the machine on which it was measured
  std::vector<Rule> rules;
  std::string from;  // for people: the file that it was read from
};

// Throws Error(ANELLO_ERR_ARGUMENT) that says which line of `from` is wrong, and how to write it.
Tuning parse_tuning(std::string_view text, std::string from);
// Text that parse_tuning reads as the same rules.
std::string print(const Tuning& tuning);
// One rule's line for each of its collectives, without the end of the last.
std::string print(const Rule& rule);

}  // namespace anello::schedule
