#include "schedule/builder.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace anello::schedule {
namespace {

bool reads_into(const Step& step) { return step.kind == Kind::reduce; }
bool has_into(const Step& step) { return step.kind != Kind::send; }
bool has_from(const Step& step) { return step.kind != Kind::recv; }
bool has_peer(const Step& step) {
  return step.kind == Kind::send || step.kind == Kind::recv || step.kind == Kind::recv_reduce;
}

}  // namespace

Builder::Builder(std::string algorithm, const Call& call, const Topology& topology, int rank)
    : call_(call), size_(topology.size), rank_(rank) {
  schedule_.algorithm = std::move(algorithm);
}

Slice Builder::resolve(Slice slice) const {
  if (slice.buffer != Buffer::input || !input_in_output(call_, rank_)) return slice;
  slice.buffer = Buffer::output;
  slice.offset += input_offset(call_, rank_);
  return slice;
}

void Builder::send(int peer, Slice from) { add(Kind::send, peer, Slice{}, from, Order::plain); }
void Builder::recv(int peer, Slice into) { add(Kind::recv, peer, into, Slice{}, Order::plain); }
void Builder::recv_reduce(int peer, Slice into, Slice from, Order order) {
  add(Kind::recv_reduce, peer, into, from, order);
}
void Builder::reduce(Slice into, Slice from, Order order) { add(Kind::reduce, -1, into, from, order); }
void Builder::copy(Slice into, Slice from) {
  if (resolve(into) != resolve(from)) add(Kind::copy, -1, into, from, Order::plain);
}
void Builder::finish(Slice into, Slice from) { add(Kind::finish, -1, into, from, Order::plain); }
void Builder::exchange(Slice into, Slice from) { add(Kind::exchange, -1, into, from, Order::plain); }

void Builder::add(Kind kind, int peer, Slice into, Slice from, Order order) {
  const Step step{kind, order == Order::reversed, peer, resolve(into), resolve(from)};
  const std::size_t count = has_into(step) ? step.into.count : step.from.count;
  const bool says_count = is_between_pairs(call_.collective) && has_peer(step);
  if (count == 0 && kind != Kind::exchange && !says_count) return;
  check(step);

  const auto index = static_cast<std::uint32_t>(schedule_.steps.size());
  depend(step);
  schedule_.steps.push_back(step);
  if (kind == Kind::send) lane(peer).sends.push_back(index);
  if (kind == Kind::recv || kind == Kind::recv_reduce) lane(peer).receives.push_back(index);
  for (const Slice* slice : {&step.into, &step.from}) {
    const std::size_t end = slice->offset + slice->count;
    if (slice->buffer == Buffer::scratch) schedule_.scratch = std::max(schedule_.scratch, end);
    if (slice->buffer == Buffer::accumulator) schedule_.accumulator = std::max(schedule_.accumulator, end);
  }
}

void Builder::check(const Step& step) const {
  const auto wrong = [&](const char* what) {
    throw Error(ANELLO_ERR_INTERNAL, text("algorithm ", schedule_.algorithm, ", rank ", rank_, " of ", size_, ", step ",
                                          schedule_.steps.size(), ": ", what));
  };
  if (has_peer(step) && (step.peer < 0 || step.peer >= size_ || step.peer == rank_)) wrong("no such peer");
  if (has_into(step) && step.into.buffer == Buffer::input) wrong("the input is not to be written");
  if (step.kind == Kind::send && step.from.buffer == Buffer::accumulator) wrong("an accumulator is never sent");
  if (has_into(step) && has_from(step) && step.kind != Kind::exchange && step.into.count != step.from.count)
    wrong("slices of different counts");
  for (const Slice* slice : {&step.into, &step.from})
    if (slice->buffer == Buffer::input || slice->buffer == Buffer::output)
      if (slice->offset + slice->count > extent(slice->buffer, call_, size_, rank_)) wrong("a slice past its buffer");
}

void Builder::depend(const Step& step) {
  const auto index = static_cast<std::uint32_t>(schedule_.steps.size());
  const auto map = [&](const Slice& slice) -> AccessMap& { return accesses_[static_cast<int>(slice.buffer)]; };
  const auto end = [](const Slice& slice) { return slice.offset + slice.count; };
  // Nobody writes the input: its readers need no record.
  const bool from_counts = has_from(step) && step.from.buffer != Buffer::input && step.from.count > 0;
  const bool into_counts = has_into(step) && step.into.count > 0;

  earlier_.clear();
  if (from_counts) map(step.from).before_read(step.from.offset, end(step.from), earlier_);
  if (into_counts && reads_into(step)) map(step.into).before_read(step.into.offset, end(step.into), earlier_);
  if (into_counts) map(step.into).before_write(step.into.offset, end(step.into), earlier_);
  if (from_counts) map(step.from).read(step.from.offset, end(step.from), index);
  if (into_counts) map(step.into).write(step.into.offset, end(step.into), index);

  std::sort(earlier_.begin(), earlier_.end());
  earlier_.erase(std::unique(earlier_.begin(), earlier_.end()), earlier_.end());
  for (const std::uint32_t earlier : earlier_) edges_.emplace_back(earlier, index);
}

Lane& Builder::lane(int peer) {
  auto& lanes = schedule_.lanes;
  auto at = std::lower_bound(lanes.begin(), lanes.end(), peer, [](const Lane& l, int p) { return l.peer < p; });
  if (at == lanes.end() || at->peer != peer) at = lanes.insert(at, Lane{peer, {}, {}});
  return *at;
}

Schedule Builder::build() && {
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
