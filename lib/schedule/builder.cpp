#include "schedule/builder.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <string_view>

namespace anello::schedule {
namespace {

bool reads_into(const Step& step) { return step.kind == Kind::reduce; }
std::size_t end(const Slice& slice) { return slice.offset + slice.count; }

}  // namespace

Builder::Builder(std::string algorithm, const Call& call, const Topology& topology, int rank)
    : call_(call), size_(topology.size), rank_(rank), staging_(topology.staging_bytes / call.element_bytes) {
  schedule_.algorithm = std::move(algorithm);
}

void Builder::touches_peers(bool inputs, bool outputs) {
  schedule_.peers_inputs = inputs;
  schedule_.peers_outputs = outputs;
}

void Builder::stages(std::size_t elements, bool comes_back) {
  if (elements > staging_)
    throw Error(ANELLO_ERR_INTERNAL, text("algorithm ", schedule_.algorithm, " stages more than there is room for"));
  schedule_.staging = elements;
  schedule_.staging_comes_back = comes_back;
}

Slice Builder::resolve(Slice slice) const {
  if (slice.owner == rank_) slice.owner = kOwn;
  return slice.owner == kOwn ? schedule::resolve(slice, call_, rank_) : slice;
}

void Builder::send(int peer, Slice from) { add({Kind::send, false, peer, {}, from}); }
void Builder::recv(int peer, Slice into) { add({Kind::recv, false, peer, into, {}}); }
void Builder::recv_reduce(int peer, Slice into, Slice from, Order order) {
  add({Kind::recv_reduce, order == Order::reversed, peer, into, from});
}
void Builder::reduce(Slice into, Slice from, Order order) {
  add({Kind::reduce, order == Order::reversed, -1, into, from});
}
void Builder::copy(Slice into, Slice from) {
  if (resolve(into) != resolve(from)) add({Kind::copy, false, -1, into, from});
}
void Builder::finish(Slice into, Slice from) { add({Kind::finish, false, -1, into, from}); }
void Builder::exchange(Slice into, Slice from) { add({Kind::exchange, false, -1, into, from}); }
void Builder::reduce_ranks(Slice into, Slice from) { add({Kind::reduce_ranks, false, -1, into, from}); }
void Builder::reduce_staged(Slice into, Slice from, std::size_t staged, std::size_t shown, int shown_in) {
  add({Kind::reduce_staged, false, -1, into, from, staged, shown, shown_in});
}
void Builder::reduce_staged_among(const std::shared_ptr<const std::vector<int>>& ranks, Slice into, Slice from,
                                  std::size_t staged, std::size_t shown, int shown_in) {
  add({Kind::reduce_staged, false, -1, into, from, staged, shown, shown_in, ranks});
}
void Builder::barrier() { add({Kind::barrier, false, -1, {}, {}}); }

void Builder::add(Step step) {
  if (schedule_.steps.size() == kMostSteps) {
    throw Error(ANELLO_ERR_RESOURCE, text("algorithm ", schedule_.algorithm, " would take more than ", kMostSteps,
                                          " steps on rank ", rank_, ", too many to hold; larger chunks take fewer"));
  }
  const Kind kind = step.kind;
  const int peer = step.peer;
  const std::size_t count = has_into(kind) ? step.into.count : step.from.count;
  const bool says_count = is_between_pairs(call_.collective) && has_peer(kind);
  if (count == 0 && kind != Kind::exchange && kind != Kind::barrier && !says_count) return;
  step.into = resolve(step.into);
  step.from = resolve(step.from);
  check(step);

  const auto index = static_cast<std::uint32_t>(schedule_.steps.size());
  depend(step);
  schedule_.steps.push_back(step);
  if (kind == Kind::send) lane(peer).sends.push_back(index);
  if (kind == Kind::recv || kind == Kind::recv_reduce) lane(peer).receives.push_back(index);
  for (const Slice* slice : {&step.into, &step.from}) {
    if (slice->buffer == Buffer::scratch) schedule_.scratch = std::max(schedule_.scratch, end(*slice));
    if (slice->buffer == Buffer::accumulator) schedule_.accumulator = std::max(schedule_.accumulator, end(*slice));
  }
}

void Builder::check(const Step& step) const {
  const auto wrong = [&](std::string_view what) {
    throw Error(ANELLO_ERR_INTERNAL, text("algorithm ", schedule_.algorithm, ", rank ", rank_, " of ", size_, ", step ",
                                          schedule_.steps.size(), ": ", what));
  };
  if (has_peer(step.kind) && (step.peer < 0 || step.peer >= size_ || step.peer == rank_)) wrong("no such peer");
  if (has_into(step.kind) && step.into.buffer == Buffer::input) wrong("the input is not to be written");
  if (step.kind == Kind::send && step.from.buffer == Buffer::accumulator) wrong("an accumulator is never sent");
  if (step.kind == Kind::reduce_ranks && step.from.owner != kEach) wrong("a reduction is of all ranks' slices");
  if (step.kind == Kind::reduce_staged && step.staged + step.into.count > schedule_.staging)
    wrong("a slice past the staging memory");
  if (step.among && (step.among->size() < 2 || !std::ranges::is_sorted(*step.among) ||
                     !std::ranges::binary_search(*step.among, rank_)))
    wrong("a reduction among other ranks");
  if (has_into(step.kind) && has_from(step.kind) && step.kind != Kind::exchange && step.into.count != step.from.count)
    wrong("slices of different counts");
  for (const Slice* slice : {&step.into, &step.from})
    if (const std::string what = problem(*slice, slice == &step.into, step.kind); !what.empty()) wrong(what);
  if (const std::string what = problem(twin_of(step), true, step.kind); !what.empty()) wrong(what);
}

std::string Builder::problem(const Slice& slice, bool is_into, Kind kind) const {
  const bool of_caller = slice.buffer == Buffer::input || slice.buffer == Buffer::output;
  if (slice.buffer == Buffer::staging) {
    if (end(slice) > schedule_.staging) return "a slice past the staging memory";
    const bool takes = kind == Kind::copy || (is_into && kind == Kind::reduce_staged);
    if (slice.owner != kOwn && (!takes || slice.owner < 0 || slice.owner >= size_))
      return "a peer's staging in a step that takes none";
    return "";
  }
  if (slice.owner == kOwn)
    return of_caller && end(slice) > extent(slice.buffer, call_, size_, rank_) ? "a slice past its buffer" : "";
  if (slice.owner < kEach || slice.owner >= size_) return "a slice of no such rank";
  if (!of_caller) return "a peer's private buffer";
  if (kind != Kind::reduce_ranks && (kind != Kind::copy || (slice.owner == kEach && !is_into)))
    return "a peer's slice in a step that takes none";
  if (call_.reach < (is_into ? Reach::store : Reach::read)) return "a peer's buffer out of reach";
  // No other rank knows which of the two places it is.
  const bool is_scattered =
      call_.collective == Collective::reduce_scatter || call_.collective == Collective::reduce_scatterv;
  if (is_scattered && slice.buffer == Buffer::output) return "a peer's part of a scattered result";
  for (int r = 0; r < size_; ++r) {
    if (slice.owner != kEach && slice.owner != r) continue;
    const bool given = slice.buffer == Buffer::input;
    if (end(slice) > (given ? input_count(call_, size_, r) : result_count(call_, size_, r)))
      return "a slice past a peer's buffer";
  }
  return "";
}

// Calls visit(map, begin, end) for each place whose order with other steps matters.
template <class Visit>
void Builder::for_each_place(const Slice& slice, Visit&& visit) {
  if (slice.count == 0) return;
  const Slice mine = slice.owner == kEach ? resolve({slice.buffer, slice.offset, slice.count}) : slice;
  // No step writes the input, so its readers need no record.
  if (mine.owner == kOwn && mine.buffer != Buffer::input)
    visit(accesses_[static_cast<int>(mine.buffer)], mine.offset, end(mine));
  if (slice.owner == kOwn) return;
  // Only barriers order this rank's steps with those of peers in their staging; this rank's loads there must be done
  // before it stores.
  if (slice.buffer == Buffer::staging) return visit(peers_staging_[slice.owner], slice.offset, end(slice));
  // A peer may be in place, so a write to its output may overwrite its input.
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || (slice.owner != kEach && slice.owner != r)) continue;
    const std::size_t begin = slice.offset + (slice.buffer == Buffer::input ? input_offset(call_, r) : 0);
    visit(peers_[r], begin, begin + slice.count);
  }
}

void Builder::depend(const Step& step) {
  const auto index = static_cast<std::uint32_t>(schedule_.steps.size());
  if (step.kind == Kind::barrier) return depend_on_everything();
  earlier_.clear();
  if (met_ != UINT32_MAX) earlier_.push_back(met_);
  const Slice from = has_from(step.kind) ? step.from : Slice{};
  const Slice into = has_into(step.kind) ? step.into : Slice{};
  for_each_place(from, [&](AccessMap& map, std::size_t a, std::size_t b) { map.before_read(a, b, earlier_); });
  for_each_place(into, [&](AccessMap& map, std::size_t a, std::size_t b) {
    if (reads_into(step)) map.before_read(a, b, earlier_);
    map.before_write(a, b, earlier_);
  });
  for_each_place(twin_of(step),
                 [&](AccessMap& map, std::size_t a, std::size_t b) { map.before_write(a, b, earlier_); });
  for_each_place(from, [&](AccessMap& map, std::size_t a, std::size_t b) { map.read(a, b, index); });
  for_each_place(into, [&](AccessMap& map, std::size_t a, std::size_t b) { map.write(a, b, index); });
  for_each_place(twin_of(step), [&](AccessMap& map, std::size_t a, std::size_t b) { map.write(a, b, index); });

  std::sort(earlier_.begin(), earlier_.end());
  earlier_.erase(std::unique(earlier_.begin(), earlier_.end()), earlier_.end());
  for (const std::uint32_t earlier : earlier_) edges_.emplace_back(earlier, index);
}

// All steps before the last barrier are done by then, and all steps after this barrier find everything done.
void Builder::depend_on_everything() {
  const auto index = static_cast<std::uint32_t>(schedule_.steps.size());
  for (std::uint32_t s = met_ == UINT32_MAX ? 0 : met_; s < index; ++s) edges_.emplace_back(s, index);
  for (AccessMap& map : accesses_) map = {};
  peers_.clear();
  peers_staging_.clear();
  met_ = index;
}

Lane& Builder::lane(int peer) {
  Lane& lane = lanes_[peer];
  lane.peer = peer;
  return lane;
}

Schedule Builder::build() && {
  schedule_.lanes.reserve(lanes_.size());
  for (auto& [peer, lane] : lanes_) schedule_.lanes.push_back(std::move(lane));
  const std::size_t steps = schedule_.steps.size();
  schedule_.waits.assign(steps, 0);
  schedule_.follower_begin.assign(steps + 1, 0);
  for (const auto& [earlier, later] : edges_) {
    ++schedule_.waits[later];
    ++schedule_.follower_begin[earlier + 1];
  }
  for (std::size_t s = 0; s < steps; ++s) schedule_.follower_begin[s + 1] += schedule_.follower_begin[s];
  schedule_.followers.resize(edges_.size());
  std::vector<std::uint32_t> next(schedule_.follower_begin.begin(), schedule_.follower_begin.end() - 1);
  for (const auto& [earlier, later] : edges_) schedule_.followers[next[earlier]++] = later;
  return std::move(schedule_);
}

}  // namespace anello::schedule
