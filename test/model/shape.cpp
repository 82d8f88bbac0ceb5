#include "model/shape.h"

#include "model/random.h"
#include "support/oracle.h"

#include <numeric>

namespace anello::model {
namespace {

using Sizes = std::vector<std::size_t>;

// Of v-forms: parts in any order with gaps between them; empty ones anywhere.
struct Places {
  Sizes at;
  std::size_t end = 0;
};
Places places(const Sizes& counts, std::uint64_t seed) {
  Random random(seed);
  Places result{Sizes(counts.size()), 0};
  Sizes order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  random.shuffle(order);
  for (const std::size_t part : order) {
    if (counts[part] == 0 && random.one_in(3)) {
      result.at[part] = SIZE_MAX - random.below(std::size_t(100));
      continue;
    }
    result.end += random.below(std::size_t(4));
    result.at[part] = result.end;
    result.end += counts[part];
  }
  result.end += random.below(std::size_t(3));
  return result;
}

// Numbers of the first element of what goes from one rank to another in a v-form.
std::size_t first_of(std::size_t to) { return to * 137; }

class Shaper {
 public:
  Shaper(const Step& step, int rank, int size)
      : step_(step), rank_(rank), size_(size), self_(std::size_t(rank)), ranks_(std::size_t(size)), n_(step.count) {}

  Shape run() {
    const Role& role = step_.roles[self_];
    const bool root = rank_ == step_.root;
    const bool rooted = has_roots(step_.kind);
    shape_.in_place = role.in_place && (!rooted || root) && step_.kind != ANELLO_BROADCAST;
    shape_.input_in_output = shape_.in_place && step_.kind != ANELLO_SCATTER && step_.kind != ANELLO_SCATTERV;
    const bool scatters_sums = step_.kind == ANELLO_REDUCE_SCATTER_BLOCK || step_.kind == ANELLO_REDUCE_SCATTER;
    shape_.own_part = shape_.in_place && scatters_sums && role.own_address;
    switch (step_.kind) {
      case ANELLO_ALLREDUCE:
      case ANELLO_SCAN:
        both(n_, n_);
        reduces(0, n_, 0, step_.kind == ANELLO_SCAN ? rank_ : size_ - 1);
        break;
      case ANELLO_EXSCAN:
        both(n_, n_);
        if (rank_ > 0)
          reduces(0, n_, 0, rank_ - 1);
        else
          shape_.has_output = shape_.in_place;  // as it is
        break;
      case ANELLO_BROADCAST:
        shape_.has_input = false;
        shape_.output = n_;
        shape_.results.push_back({0, n_, 0, step_.root, false});
        if (root) shape_.given.push_back({0, n_, 0, rank_, false});
        shape_.input_in_output = root;
        break;
      case ANELLO_REDUCE:
        both(n_, root ? n_ : 0);
        shape_.has_output = root;
        if (root) reduces(0, n_, 0, size_ - 1);
        break;
      case ANELLO_REDUCE_SCATTER_BLOCK:
        both(n_ * ranks_, shape_.in_place ? n_ * ranks_ : n_);
        reduces(shape_.own_part ? self_ * n_ : 0, n_, self_ * n_, size_ - 1);
        shape_.rest_unspecified = shape_.in_place && !shape_.own_part;
        break;
      case ANELLO_ALLGATHER: gather(true); break;
      case ANELLO_GATHER: gather(root); break;
      case ANELLO_SCATTER:
        shape_.has_input = root;
        if (root) shape_.given.push_back({0, n_ * ranks_, 0, rank_, false});
        shape_.input = root ? n_ * ranks_ : 0;
        shape_.output = shape_.in_place ? 0 : n_;
        if (!shape_.in_place) shape_.results.push_back({0, n_, self_ * n_, step_.root, false});
        break;
      case ANELLO_ALLTOALL:
        both(n_ * ranks_, n_ * ranks_);
        for (int p = 0; p < size_; ++p) shape_.results.push_back({std::size_t(p) * n_, n_, self_ * n_, p, false});
        break;
      case ANELLO_ALLGATHERV: gather_varying(true); break;
      case ANELLO_GATHERV: gather_varying(root); break;
      case ANELLO_SCATTERV: scatter_varying(root); break;
      case ANELLO_REDUCE_SCATTER: reduce_varying(); break;
      case ANELLO_ALLTOALLV: alltoall_varying(); break;
      default: shape_.has_input = shape_.has_output = false;
    }
    return std::move(shape_);
  }

 private:
  void both(std::size_t input, std::size_t output) {
    shape_.input = shape_.in_place ? 0 : input;
    shape_.output = output;
    shape_.given.push_back({0, input, 0, rank_, false});
  }
  void reduces(std::size_t at, std::size_t count, std::size_t first, int last) {
    shape_.results.push_back({at, count, first, last, true});
  }
  std::uint64_t seed(std::uint64_t buffer) const { return mix(step_.seed, 1000 + self_ * 2 + buffer); }

  void gather(bool receives) {
    shape_.has_output = receives;
    shape_.input = shape_.in_place ? 0 : n_;
    shape_.output = receives ? n_ * ranks_ : 0;
    shape_.given.push_back({shape_.in_place ? self_ * n_ : 0, n_, 0, rank_, false});
    for (int p = 0; receives && p < size_; ++p) shape_.results.push_back({std::size_t(p) * n_, n_, 0, p, false});
  }
  void gather_varying(bool receives) {
    const std::size_t own = step_.counts[self_];
    shape_.has_output = receives;
    shape_.input = shape_.in_place ? 0 : own;
    if (receives) {
      const Places lie = places(step_.counts, seed(1));
      shape_.recvcounts = step_.counts;
      shape_.rdispls = lie.at;
      shape_.output = lie.end;
      for (std::size_t p = 0; p < ranks_; ++p) result(lie.at[p], step_.counts[p], 0, int(p));
    }
    if (own > 0) shape_.given.push_back({shape_.in_place ? shape_.rdispls[self_] : 0, own, 0, rank_, false});
  }
  void scatter_varying(bool root) {
    shape_.has_input = root;
    if (root) {
      const Places lie = places(step_.counts, seed(0));
      shape_.sendcounts = step_.counts;
      shape_.sdispls = lie.at;
      shape_.input = lie.end;
      for (std::size_t p = 0; p < ranks_; ++p) give(lie.at[p], step_.counts[p], first_of(p));
    }
    shape_.output = shape_.in_place ? 0 : step_.counts[self_];
    if (!shape_.in_place) result(0, step_.counts[self_], first_of(self_), step_.root);
  }
  void reduce_varying() {
    const std::size_t first = std::accumulate(step_.counts.begin(), step_.counts.begin() + rank_, std::size_t(0));
    const std::size_t all = std::accumulate(step_.counts.begin(), step_.counts.end(), std::size_t(0));
    shape_.recvcounts = step_.counts;
    both(all, shape_.in_place ? all : step_.counts[self_]);
    reduces(shape_.own_part ? first : 0, step_.counts[self_], first, size_ - 1);
    shape_.rest_unspecified = shape_.in_place && !shape_.own_part;
  }
  void alltoall_varying() {
    Sizes going(ranks_), coming(ranks_);
    for (std::size_t p = 0; p < ranks_; ++p) {
      going[p] = step_.counts[self_ * ranks_ + p];
      coming[p] = step_.counts[p * ranks_ + self_];
    }
    const Places in = places(going, seed(0)), out = places(coming, seed(1));
    shape_.recvcounts = coming;
    shape_.rdispls = out.at;
    shape_.output = out.end;
    shape_.input = shape_.in_place ? 0 : in.end;
    if (!shape_.in_place) {
      shape_.sendcounts = going;
      shape_.sdispls = in.at;
    }
    for (std::size_t p = 0; p < ranks_; ++p) {
      give(shape_.in_place ? out.at[p] : in.at[p], going[p], first_of(p));
      result(out.at[p], coming[p], first_of(self_), int(p));
    }
  }
  void give(std::size_t at, std::size_t count, std::size_t first) {
    if (count > 0) shape_.given.push_back({at, count, first, rank_, false});
  }
  void result(std::size_t at, std::size_t count, std::size_t first, int source) {
    if (count > 0) shape_.results.push_back({at, count, first, source, false});
  }

  const Step& step_;
  int rank_;
  int size_;
  std::size_t self_;
  std::size_t ranks_;
  std::size_t n_;
  Shape shape_;
};

}  // namespace

Shape shape(const Step& step, int rank, int size) { return Shaper(step, rank, size).run(); }

void lay_result(unsigned char* at, const Step& step, int round, const Piece& piece, int size) {
  const std::size_t element = anello_dtype_size(step.dtype);
  if (!piece.reduce) return lay(at, period(step, round, piece.source), element, piece.first, piece.count);
  std::vector<Bytes> all;
  for (int rank = 0; rank <= piece.source; ++rank) all.push_back(period(step, round, rank));
  test::Operands operands;
  for (const Bytes& each : all) operands.push_back(each.data());
  Bytes reduced(kPeriod * element);
  if (step.own_op == OwnOp::none) {
    test::reduce(step.dtype, step.op, operands, kPeriod, size, reduced.data());
  } else {
    reduced = all[0];
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      combine(step.own_op, element, reduced.data(), reduced.data(), all[rank].data(), kPeriod);
    }
  }
  lay(at, reduced, element, piece.first, piece.count);
}

}  // namespace anello::model
