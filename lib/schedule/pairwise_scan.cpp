#include "schedule/algorithms.h"
#include "schedule/builder.h"

namespace anello::schedule {
namespace {

// The number of chunks that are reduced at once, and how many chunks later results are sent; as in pairwise.cpp.
constexpr std::size_t kSlots = 4;
constexpr std::size_t kLookahead = 2;

// Each block's owner gets all inputs of it, reduces them in rank order and sends the partial result after each rank.
// Every result is rounded once, and a rank's links carry about one vector each way.
class PairwiseScan {
 public:
  PairwiseScan(const Call& call, const Topology& topology, int rank, std::size_t chunk)
      : call_(call),
        size_(topology.size),
        rank_(rank),
        exclusive_(call.collective == Collective::exscan ? 1 : 0),
        split_(call.count, topology.size, chunk),
        steps_("pairwise", call, topology, rank) {}

  Schedule make() {
    for (std::size_t c = 0; c < split_.chunks() + kLookahead; ++c) {
      if (c < split_.chunks()) collect(c);
      if (c >= kLookahead) hand_out(c - kLookahead);
    }
    const Part all{0, call_.count};
    if (rank_ == 0 && exclusive_ == 0) steps_.copy(output(all), input(all));
    return std::move(steps_).build();
  }

 private:
  // The sum over all ranks up to this one, for this rank's block.
  Slice sum(int rank, std::size_t c) const {
    const std::size_t slot = c % kSlots * static_cast<std::size_t>(size_) + static_cast<std::size_t>(rank);
    return {Buffer::scratch, slot * split_.longest(), split_.chunk(rank_, c).count};
  }
  // The rank that gets it. The first rank gets nothing: a scan's result there is its own input.
  int taker(int rank) const { return rank + exclusive_; }
  // Whether it is in any rank's result.
  bool is_wanted(int rank) const { return taker(rank) < size_; }

  void collect(std::size_t c) {
    const int owners = split_.holders(c);
    for (int d = 1; d < size_ && is_wanted(rank_); ++d) {
      const int owner = wrap(rank_ + d, size_);
      if (owner < owners) {
        steps_.send(owner, input(split_.chunk(owner, c)));
      } else {
        d += size_ - 1 - owner;  // to rank 0
      }
    }
    if (rank_ >= owners) return;
    for (int rank = 0; rank < size_ && is_wanted(rank); ++rank)
      if (call_.accumulate)
        add_wide(rank, c);
      else
        add(rank, c);
  }
  void add(int rank, std::size_t c) {
    const Slice into = sum(rank, c);
    const Slice own = input(split_.chunk(rank_, c));
    if (rank == 0) {
      take(rank, into, own);
    } else if (rank != rank_) {
      steps_.recv_reduce(rank, into, sum(rank - 1, c));
    } else {
      steps_.copy(into, own);
      steps_.reduce(into, sum(rank - 1, c), Order::reversed);
    }
  }
  void add_wide(int rank, std::size_t c) {
    const Slice own = input(split_.chunk(rank_, c));
    const Slice wide{Buffer::accumulator, c % kSlots * split_.longest(), own.count};
    if (rank == 0)
      take(rank, wide, own);
    else if (rank != rank_)
      steps_.recv_reduce(rank, wide, wide);
    else
      steps_.reduce(wide, own);
    if (taker(rank) > 0) steps_.finish(sum(rank, c), wide);
  }
  void take(int rank, Slice into, Slice own) {
    if (rank == rank_)
      steps_.copy(into, own);
    else
      steps_.recv(rank, into);
  }

  void hand_out(std::size_t c) {
    const int owners = split_.holders(c);
    for (int rank = 1 - exclusive_; rank_ < owners && is_wanted(rank); ++rank) {
      if (taker(rank) == rank_)
        steps_.copy(output(split_.chunk(rank_, c)), sum(rank, c));
      else
        steps_.send(taker(rank), sum(rank, c));
    }
    if (rank_ == 0) return;
    for (int d = 1; d < size_; ++d) {
      const int owner = wrap(rank_ - d, size_);
      if (owner < owners) {
        steps_.recv(owner, output(split_.chunk(owner, c)));
      } else {
        d += owner - owners;  // to the last one
      }
    }
  }

  const Call& call_;
  int size_;
  int rank_;
  int exclusive_;
  Split split_;
  Builder steps_;
};

}  // namespace

Schedule pairwise_scan(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  return PairwiseScan(call, topology, rank, chunk).make();
}

}  // namespace anello::schedule
