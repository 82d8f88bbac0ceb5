#include "executor/reduce_step.h"

#include "executor/group.h"
#include "executor/steps.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace anello::executor {
namespace {

using schedule::Kind;
using schedule::Step;

// A block of one operand: two of them and their result fit into the nearest cache.
constexpr std::size_t kBlockBytes = 8 * 1024;
// Likewise for operands that are read by system call, each of which costs as much as a few KiB.
constexpr std::size_t kReadBlockBytes = 128 * 1024;
constexpr int kAbreast = ResolvedStep::kAbreast;

// One piece of a reduction: its operands, and the destinations of its result.
class PieceReduction {
 public:
  PieceReduction(Operation& operation, const Step& step, std::size_t first, std::size_t count)
      : operation_(operation),
        step_(step),
        first_(first),
        count_(count),
        operands_(schedule::operands_of(step, operation.group->size())) {
    find_destinations();
  }

  // Stores the result to staging memory, too.
  void show() { add(operation_.at(part_of(twin_of(step_), first_, count_))); }

  ResolvedStep resolve() const {
    ResolvedStep resolved;
    resolved.count = count_;
    resolved.bytes = bytes(count_);
    resolved.into[0] = destinations_[0];
    resolved.action = is_abreast() ? Action::reduce : Action::reduce_in_blocks;
    if (resolved.action == Action::reduce_in_blocks) {
      resolved.step = &step_;
      resolved.first = first_;
      return resolved;
    }
    resolved.loads = operands_;
    resolved.stores = stores_;
    for (int i = 0; i < operands_; ++i) resolved.from[std::size_t(i)] = operand(i, 0, count_, nullptr);
    std::copy_n(destinations_.begin(), stores_, resolved.into.begin());
    return resolved;
  }

  void run_in_blocks() {
    bool reads = false;
    for (int i = 0; i < operands_; ++i) reads = reads || is_read(i);
    const std::size_t block =
        std::max<std::size_t>((reads ? kReadBlockBytes : kBlockBytes) / operation_.element_bytes, 1);
    for (std::size_t done = 0; done < count_; done += block) {
      const std::size_t n = std::min(block, count_ - done);
      std::byte* const result = destinations_[0] + bytes(done);
      const int stored = reduce_block(done, n);
      for (int d = stored; d < stores_; ++d) std::memcpy(destinations_[std::size_t(d)] + bytes(done), result, bytes(n));
    }
  }

 private:
  const kernels::Reducer* reducer() const { return operation_.reducer; }
  std::size_t bytes(std::size_t elements) const { return elements * operation_.element_bytes; }
  void add(std::byte* destination) { destinations_[std::size_t(stores_++)] = destination; }
  void find_destinations() {
    const schedule::Slice into = part_of(step_.into, first_, count_);
    const bool everywhere = step_.into.owner == schedule::kEach;
    // Backwards: the places of the operands that are reduced last are the nearest for a store.
    for (int rank = operation_.group->size() - 1; rank >= 0 && everywhere; --rank) add(operation_.at_peer(into, rank));
    // A slice of this rank's scratch has no peer address; a slice of every rank is in callers' buffers.
    if (!everywhere) add(operation_.at(into));
  }
  bool is_abreast() const {
    if (operation_.is_in_place()) return true;  // its schedule has no more than a kernel takes
    return operands_ <= kAbreast && stores_ <= kAbreast && loads_all() && reducer()->reduce_all != nullptr &&
           !(step_.among && reducer()->finishes);
  }

  int rank_of(int i) const { return schedule::operand_of(step_, i); }
  bool is_read(int i) const {
    return step_.kind == Kind::reduce_ranks && operation_.buffer_of(step_.from, rank_of(i)).remote != nullptr;
  }
  // Whether the kernels can load all operands where they lie.
  bool loads_all() const {
    bool loads = operation_.custom == nullptr;
    for (int i = 0; i < operands_ && loads; ++i) loads = !is_read(i);
    return loads;
  }
  // The address of operand i, `done` elements into the piece: in its place, or read into `landing`.
  const std::byte* operand(int i, std::size_t done, std::size_t n, std::byte* landing) const {
    const int rank = rank_of(i);
    const schedule::Slice slice = part_of(step_.from, first_ + done, n);
    if (step_.kind == Kind::reduce_staged && rank != operation_.group->rank)
      return operation_.at_staging(rank, step_.staged + first_ + done);
    if (step_.kind == Kind::reduce_staged) return operation_.at(slice);
    if (!is_read(i)) return operation_.at_peer(slice, rank);
    get_from(operation_, *operation_.buffer_of(slice, rank).remote, rank, operation_.at_peer(slice, rank), landing,
             bytes(n));
    return landing;
  }
  // Operands may lie at destinations, so partial results stay in memory of their own until all operands have been read.
  // Returns the number of destinations that have the result.
  int reduce_block(std::size_t done, std::size_t count) {
    std::byte* const dest = destinations_[0] + bytes(done);
    const bool divides = reducer() != nullptr && reducer()->finishes && !step_.among;
    const bool at_once = operands_ == 2 && !(divides && reducer()->accumulates);
    const bool wide = !at_once && operation_.custom == nullptr && reducer()->accumulates;
    // Operands that are read of peers come first (two are in use at a time), then the partial result.
    constexpr std::size_t kAlign = 64;
    const std::size_t landing = (bytes(count) + kAlign - 1) / kAlign * kAlign;
    const std::size_t sum_bytes =
        at_once ? 0 : count * (wide ? reducer()->accumulator_bytes : operation_.element_bytes);
    std::vector<std::byte>& memory = operation_.run.accumulator;
    if (memory.size() < 2 * landing + sum_bytes) memory.resize(2 * landing + sum_bytes);
    std::byte* const landings = memory.data();
    std::byte* const sum = landings + 2 * landing;
    const auto place = [&](int i) { return operand(i, done, count, landings + std::size_t(i % 2) * landing); };

    if (wide) {
      reducer()->widen(sum, place(0), count);
      for (int i = 1; i < operands_; ++i) reducer()->accumulate(sum, place(i), count);
      reducer()->finish(dest, sum, count, operands_);
      return 1;
    }
    const std::byte* left = place(0);
    for (int i = 1; i < operands_ - 1; ++i) {
      operation_.combine(sum, left, place(i), count);
      left = sum;
    }
    const std::byte* const last = place(operands_ - 1);
    if (stores_ > 1 && operation_.custom == nullptr && !divides) {
      reducer()->reduce_twice(dest, destinations_[1] + bytes(done), left, last, count);
      return 2;
    }
    operation_.combine(dest, left, last, count);
    if (divides) reducer()->finish_in_type(dest, dest, count, operands_);
    return 1;
  }

  Operation& operation_;
  const Step& step_;
  const std::size_t first_;
  const std::size_t count_;
  const int operands_;
  std::array<std::byte*, memory::kMaxLocalRanks + 1> destinations_;
  int stores_ = 0;
};

}  // namespace

ResolvedStep resolve_reduce(Operation& operation, const Step& step, std::size_t first, std::size_t count) {
  PieceReduction piece(operation, step, first, count);
  if (step.shown == schedule::kNotShown) return piece.resolve();
  // Staging memory that comes back lies in the caches that want it next.
  const bool streams =
      !operation.plan->schedule.staging_comes_back && operation.group->parts.steps.copies_to_peers().streams();
  if (!streams) piece.show();
  ResolvedStep resolved = piece.resolve();
  if (streams) resolved.streamed = operation.at(part_of(twin_of(step), first, count));
  return resolved;
}

void reduce_in_blocks(Operation& operation, const ResolvedStep& resolved) {
  const Step& step = *resolved.step;
  PieceReduction piece(operation, step, resolved.first, resolved.count);
  if (step.shown != schedule::kNotShown && resolved.streamed == nullptr) piece.show();
  piece.run_in_blocks();
}

}  // namespace anello::executor
