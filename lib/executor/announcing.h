#pragma once
// The lines with which ranks enter a call over peers' memory (announcing.cpp, entering.cpp).
#include "executor/group.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::executor {

// Whether a rank's line may be its payload instead of an announcement, so that the lines may be the whole call.
bool may_publish_payload(const Operation& operation);

// Counts the ranks' lines by kind, once all have come.
struct Entries {
  int payloads = 0;
  int staged = 0;
  int sends = 0;
  bool for_speed = false;  // some rank says that reading is slow
  int wrong = -1;          // a rank whose line is of a kind that this call cannot have
};
Entries entries_of(const Operation& operation);

// A line of the round `agree`: bit i is set where this rank has not mapped the memory that rank i announced, or cannot
// read its process.
struct Lacking {
  using Ranks = std::array<std::uint64_t, memory::kMaxLocalRanks / 64>;
  Ranks mapping{};
  Ranks reading{};

  static void add(Ranks& ranks, std::size_t rank) { ranks[rank / 64] |= std::uint64_t{1} << (rank % 64); }
  static bool has(const Ranks& ranks, std::size_t rank) { return (ranks[rank / 64] >> (rank % 64) & 1) != 0; }
  void join(const Lacking& other) {
    for (std::size_t word = 0; word < mapping.size(); ++word) {
      mapping[word] |= other.mapping[word];
      reading[word] |= other.reading[word];
    }
  }
};
static_assert(sizeof(Lacking) <= memory::kBoardBytes);

}  // namespace anello::executor
