#pragma once
// Turns what an algorithm says in program order into a Schedule: derives which step waits for which from the slices
// they touch, sorts messages into lanes, sizes the private buffers. Algorithms never state a dependency.
//
// Messages of zero elements vanish on both sides, since both sides cut alike; where each side has only its own word for
// a count they stay, or an end that expects none would never hear of the other's. Input slices of a call in place
// become output slices first, so that an algorithm is written once for both.
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
// The same of a peer, or of kEach.
inline Slice input_of(int owner, Part part) { return {Buffer::input, part.offset, part.count, owner}; }
inline Slice output_of(int owner, Part part) { return {Buffer::output, part.offset, part.count, owner}; }
inline Slice staging(Part part) { return {Buffer::staging, part.offset, part.count}; }
inline Slice staging_of(int owner, Part part) { return {Buffer::staging, part.offset, part.count, owner}; }

// Which operand stands on the left: the arriving one (recv_reduce) or from (reduce) where reversed.
enum class Order : bool { plain, reversed };

class Builder {
 public:
  Builder(std::string algorithm, const Call& call, const Topology& topology, int rank);

  // Of an algorithm over peers' memory: which of their buffers it touches, on whatever rank.
  void touches_peers(bool inputs, bool outputs);

  // Of one over staging memory: how much of it any rank uses. comes_back: nobody else is at a rank's when its call is
  // over.
  void stages(std::size_t elements, bool comes_back = false);

  void send(int peer, Slice from);
  void recv(int peer, Slice into);
  void recv_reduce(int peer, Slice into, Slice from, Order order = Order::plain);
  void reduce(Slice into, Slice from, Order order = Order::plain);
  void copy(Slice into, Slice from);  // onto itself: nothing
  void finish(Slice into, Slice from);
  void exchange(Slice into, Slice from);      // kept with zero elements, too: it still synchronises
  void reduce_ranks(Slice into, Slice from);  // from: owner kEach
  void reduce_staged(Slice into, Slice from, std::size_t staged, std::size_t shown = kNotShown, int shown_in = kOwn);
  // The same of these ranks alone, without its finish.
  void reduce_staged_among(const std::shared_ptr<const std::vector<int>>& ranks, Slice into, Slice from,
                           std::size_t staged, std::size_t shown = kNotShown, int shown_in = kOwn);
  void barrier();

  // Where the slice lies for this call: itself, or for an input in place the output that holds it. A peer's stays as it
  // is: only the peer knows whether it is in place.
  Slice resolve(Slice slice) const;

  // Steps that an algorithm got wrong (a slice past its buffer, a peer that is not there, a write to the input) throw
  // Error(ANELLO_ERR_INTERNAL) from the calls above. The builder is spent afterwards.
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
  std::size_t staging_;  // elements that there are
  Schedule schedule_;
  AccessMap accesses_[kBuffers];    // by Buffer
  std::map<int, AccessMap> peers_;  // by owner: its output, and its input as it would lie there in place
  std::map<int, AccessMap> peers_staging_;
  std::uint32_t met_ = UINT32_MAX;                              // the last barrier
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // (earlier, later), grouped by rising later
  std::vector<std::uint32_t> earlier_;                          // of the step being added
};

}  // namespace anello::schedule
