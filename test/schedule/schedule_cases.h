#pragma once
// The calls that the schedule tests try.
#include "base/text.h"
#include "schedule/catalog.h"
#include "schedule/shape.h"
#include "support/knob.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace anello::schedule {

// By night. By day the tests leave out what repeats the same for more ranks.
inline bool is_long() { return testing::knob("SCHEDULE_LONG", 0) != 0; }

inline Call a_call(Collective collective, std::size_t count) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.element_bytes = 1;
  return call;
}

// With a board, so that exchange fits as well.
inline Topology meeting(int size) {
  Topology topology;
  topology.size = size;
  topology.board = true;
  topology.board_bytes = 1 << 20;
  topology.staging_bytes = 600;  // of elements of a byte: several rounds
  return topology;
}

// Rank r on host host_of[r], numbered by their lowest ranks; no board.
inline Topology on_hosts(std::vector<int> host_of) {
  Topology topology;
  topology.size = static_cast<int>(host_of.size());
  topology.network = true;
  topology.host_of = std::move(host_of);
  return topology;
}
// One after the other: {2, 3} is 0 0 1 1 1.
inline Topology in_blocks(const std::vector<int>& ranks_on) {
  std::vector<int> host_of;
  for (std::size_t host = 0; host < ranks_on.size(); ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(ranks_on[host]), static_cast<int>(host));
  return on_hosts(std::move(host_of));
}
// 0 1 2 0 1 2 0: also uneven where size is no multiple.
inline Topology round_robin(int size, int hosts) {
  std::vector<int> host_of;
  for (int rank = 0; rank < size; ++rank) host_of.push_back(rank % hosts);
  return on_hosts(std::move(host_of));
}

// Whether the algorithm does this call; call.reach becomes what it needs for that.
inline bool fits_within_reach(const Algorithm& algorithm, Call& call, const Topology& topology) {
  for (const Reach reach : {Reach::none, Reach::read, Reach::store}) {
    call.reach = reach;
    if (algorithm.fits(call, topology)) return true;
  }
  return false;
}

// A slice of a built step as it can be said to a Builder again, which would put a result that replaces the rank's own
// part there twice.
inline Slice said(Slice slice, const Call& call, int rank) {
  if (slice.buffer == Buffer::output && slice.owner == kOwn) slice.offset -= result_offset(call, rank);
  return slice;
}

inline std::string describe(const Call& call) {
  return text(name(call.collective), " of ", call.count,
              call.in_place ? call.own_part ? " in its own part" : " in place" : "", call.finish ? " avg" : "",
              call.accumulate ? " accumulate" : "", call.invariant ? " invariant" : "", " root ", call.root);
}

inline std::vector<Call> calls(Collective collective, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  if (is_varying(collective)) return {};  // each rank has a call of its own: varying_test.cpp
  const std::size_t large = has_parts(collective) ? 29 : 401;
  std::vector<Call> result;
  for (const std::size_t count : std::set<std::size_t>{0, 1, ranks - 1, ranks, ranks + 1, large}) {
    if (collective == Collective::barrier && count > 0) continue;
    for (unsigned variant = 0; variant < (reduces(collective) ? 16u : 2u); ++variant) {
      if (count == large && size > 9 && variant % 5 != 0) continue;
      Call call = a_call(collective, count);
      call.in_place = (variant & 1) != 0;
      call.finish = (variant & 2) != 0;
      call.accumulate = (variant & 4) != 0;
      call.invariant = (variant & 8) != 0;
      call.root = has_root(collective) ? size / 2 : 0;
      if (is_prefix(collective) && call.finish) continue;
      if (call.in_place && (collective == Collective::broadcast || collective == Collective::barrier)) continue;
      result.push_back(call);
      if (!call.in_place || collective != Collective::reduce_scatter || (size > 9 && variant % 5 != 0)) continue;
      call.own_part = true;
      result.push_back(call);
    }
  }
  return result;
}

}  // namespace anello::schedule
