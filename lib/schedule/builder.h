#pragma once
// Turns an algorithm's calls, in program order, into a Schedule: it derives dependencies between steps from the slices
// that they touch, sorts messages into lanes, and sizes the private buffers. Algorithms never state a dependency.
//
// Messages of zero elements vanish on both sides, because both sides cut in the same way. If each side has only its own
// value of a count, they stay: otherwise a rank that expects no elements would never learn that the other one sends
// some. Input slices of an in-place call become output slices first, so an algorithm need not distinguish the two
// cases.
#include "schedule/access_map.h"
#include "schedule/schedule.h"
#include "schedule/shape.h"
#include "schedule/split.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace anello::schedule {

inline Slice input(Part part) { return {Buffer::input, part.offset, part.count}; }
inline Slice output(Part part) { return {Buffer::output, part.offset, part.count}; }
// Slices of a peer, or of kEach.
inline Slice input_of(int owner, Part part) { return {Buffer::input, part.offset, part.count, owner}; }
inline Slice output_of(int owner, Part part) { return {Buffer::output, part.offset, part.count, owner}; }
inline Slice staging(Part part) { return {Buffer::staging, part.offset, part.count}; }
inline Slice staging_of(int owner, Part part) { return {Buffer::staging, part.offset, part.count, owner}; }

// The left operand. If reversed, it is the arriving one (recv_reduce) or from (reduce).
enum class Order : bool { plain, reversed };

// The most steps of one rank's plan: these take about a gigabyte.
inline constexpr std::size_t kMostSteps = 8'000'000;

class Builder {
 public:
  Builder(std::string algorithm, const Call& call, const Topology& topology, int rank);

  // For an algorithm over peers' memory: which of their buffers it touches, on any rank.
  void touches_peers(bool inputs, bool outputs);

  // For an algorithm over staging memory: how much of it a rank uses at most. comes_back: no other rank accesses a
  // rank's staging when its call is over.
  void stages(std::size_t elements, bool comes_back = false);

  void send(int peer, Slice from);
  void recv(int peer, Slice into);
  void recv_reduce(int peer, Slice into, Slice from, Order order = Order::plain);
  void reduce(Slice into, Slice from, Order order = Order::plain);
  void copy(Slice into, Slice from);  // a copy to itself does nothing
  void finish(Slice into, Slice from);
  void exchange(Slice into, Slice from);      // kept even with zero elements: it still synchronises
  void reduce_ranks(Slice into, Slice from);  // from: owner kEach
  void reduce_staged(Slice into, Slice from, std::size_t staged, std::size_t shown = kNotShown, int shown_in = kOwn);
  // The reduction of these ranks only, without the finish.
  void reduce_staged_among(const std::shared_ptr<const std::vector<int>>& ranks, Slice into, Slice from,
                           std::size_t staged, std::size_t shown = kNotShown, int shown_in = kOwn);
  void barrier();

  // The place of the slice in this call: the slice itself or, for an input in place, the output that holds it. A peer's
  // slice is unchanged: only the peer knows whether it is in place.
  Slice resolve(Slice slice) const;

  // More than kMostSteps are refused: ANELLO_ERR_RESOURCE. An invalid step (a slice past its buffer, a peer that does
  // not exist, a write to the input) makes the calls above throw Error(ANELLO_ERR_INTERNAL). The builder cannot be used
  // afterwards.
  Schedule build() &&;

 private:
  void add(Step step);
  void check(const Step& step) const;
  std::string problem(const Slice& slice, bool is_into, Kind kind) const;  // "": none
  void depend(const Step& step);
  void depend_on_everything();
  template <class Visit>
  void for_each_place(const Slice& slice, Visit&& visit);
  Lane& lane(int peer);

  Call call_;
  int size_;
  int rank_;
  std::size_t staging_;  // the number of elements
  Schedule schedule_;
  std::map<int, Lane> lanes_;       // until it is built
  AccessMap accesses_[kBuffers];    // by Buffer
  std::map<int, AccessMap> peers_;  // by owner: its output, and its input at the place that it would have there in
                                    // place
  std::map<int, AccessMap> peers_staging_;
  std::uint32_t met_ = UINT32_MAX;                              // the last barrier
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // (earlier, later), grouped by rising later
  std::vector<std::uint32_t> earlier_;                          // of the step being added
};

}  // namespace anello::schedule
