#pragma once
// The algorithms, a row each, and choose(): one visible table from a call and a topology to a row and a chunk.
#include "schedule/schedule.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace anello::schedule {

struct Algorithm {
  std::string_view name;
  Collective collective;
  // Whether it can do this call at all; choose() and ANELLO_ALGORITHM never go past it.
  bool (*fits)(const Call& call, const Topology& topology);
  // rank's schedule. chunk in elements, at least 1.
  Schedule (*make)(const Call& call, const Topology& topology, int rank, std::size_t chunk);
  std::string_view what;     // one line for people
  bool cuts_blocks = false;  // its chunks are pieces of the P-th part of a call's count, else of all of it
  std::size_t most_chunks =
      1024;  // a plan's steps are bounded: chunks grow where there would be more of them than this
};

const std::vector<Algorithm>& catalog();
const Algorithm* find(Collective collective, std::string_view name);  // nullptr: no such row

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::size_t chunk = 1;  // elements
  bool operator==(const Choice&) const = default;
};

struct Tuning;

// What ANELLO_ALGORITHM, ANELLO_CHUNK_BYTES and ANELLO_TUNING (rank 0's) ask for.
struct Wish {
  std::string algorithm;                           // "ring" or "allreduce:ring,broadcast:tree"; "" for none
  std::size_t chunk_bytes = 0;                     // 0 for none
  std::shared_ptr<const Tuning> tuning = nullptr;  // its rules come before those of the library
};

// Never fails for a valid call: a wish that does not fit is passed over. The call's own comes first.
Choice choose(const Call& call, const Topology& topology, const Wish& wish = {});
// Whether, could ranks reach each other's buffers, choose() would take an algorithm that needs it: then all announce
// theirs, whatever they can in truth. Equal on all ranks: call.reach and call.in_place do not matter.
bool profits_from_reach(Call call, const Topology& topology, const Wish& wish = {});
// "ring, pairwise, doubling": those that can do this call.
std::string names_that_fit(const Call& call, const Topology& topology);
// "" when wish names only algorithms that exist, else what is wrong and what there is.
std::string why_not(const Wish& wish);

const char* name(Collective collective);
const char* name(Reach reach);

}  // namespace anello::schedule
