#pragma once
// The algorithms, one row each, and choose(): one visible table that maps a call and a topology to a row and a chunk.
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
  // Whether the algorithm can do this call at all; neither choose() nor ANELLO_ALGORITHM uses it otherwise.
  bool (*fits)(const Call& call, const Topology& topology);
  // Returns rank's schedule. chunk is in elements, at least 1.
  Schedule (*make)(const Call& call, const Topology& topology, int rank, std::size_t chunk);
  std::string_view what;     // one line for people
  bool cuts_blocks = false;  // its chunks are pieces of a block (the P-th part of a call's count), else of the whole
                             // count
  std::size_t most_chunks =
      1024;  // the steps of a plan are bounded: chunks grow if there would be more chunks than this
};

const std::vector<Algorithm>& catalog();
const Algorithm* find(Collective collective, std::string_view name);  // nullptr: no such row

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::size_t chunk = 1;  // elements
  bool operator==(const Choice&) const = default;
};

struct Tuning;

// The values of ANELLO_ALGORITHM, ANELLO_CHUNK_BYTES and ANELLO_TUNING (rank 0's).
struct Wish {
  std::string algorithm;                           // "ring" or "allreduce:ring,broadcast:tree"; "" for none
  std::size_t chunk_bytes = 0;                     // 0 for none
  std::shared_ptr<const Tuning> tuning = nullptr;  // its rules come before those of the library
};

// Never fails for a valid call in host memory: it ignores a wish that does not fit. The call's own wish comes first. In
// devices' memory, no algorithm: the call goes through the host, because it is too small or nothing fits.
Choice choose(const Call& call, const Topology& topology, const Wish& wish = {});
// Whether choose() would take an algorithm that reaches other ranks' buffers if they were reachable. Then all ranks
// announce theirs, whether they are reachable or not. Equal on all ranks: call.reach and call.in_place do not matter.
bool profits_from_reach(Call call, const Topology& topology, const Wish& wish = {});
// "ring, pairwise, doubling": those that can do this call.
std::string names_that_fit(const Call& call, const Topology& topology);
// "" if wish names only algorithms that exist, else the error and the names that exist.
std::string why_not(const Wish& wish);

const char* name(Collective collective);
const char* name(Reach reach);
const char* name(Space space);

}  // namespace anello::schedule
