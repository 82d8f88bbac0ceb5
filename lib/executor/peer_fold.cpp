#include "executor/peer_fold.h"

#include "executor/context.h"
#include "memory/process_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace anello::executor {
namespace {

using schedule::Kind;
using schedule::Step;

// Of one operand at a time: with two of them, and what they make, in the nearest cache.
constexpr std::size_t kBlockBytes = 8 * 1024;
// The same of operands that are read by system call, each of which costs as much as a few KiB.
constexpr std::size_t kReadBlockBytes = 128 * 1024;
constexpr int kAbreast = PlacedStep::kAbreast;

// What a piece is folded from, and where its result goes.
class PieceFold {
 public:
  PieceFold(Operation& operation, const Step& step, std::size_t from, std::size_t count)
      : operation_(operation),
        step_(step),
        from_(from),
        count_(count),
        operands_(schedule::operands_of(step, operation.group->size())) {}

  void run() {
    find_destinations();
    memory::PieceCopy& copies = operation_.group->context.copies_to_peers();
    const bool shows = step_.shown != schedule::kNotShown;
    std::byte* const shown = shows ? operation_.at(part_of(twin_of(step_), from_, count_)) : nullptr;
    // What comes back lies in the caches that want it next.
    const bool streams = shows && !operation_.plan->schedule.staging_comes_back && copies.streams();
    if (shows && !streams) add(shown);
    if (is_abreast()) {
      placed().fold(*reducer());
    } else {
      fold_in_blocks();
    }
    if (streams) copies.copy(shown, destinations_[0], bytes(count_));
  }

  // The same of all of the step, if it can be placed.
  std::optional<PlacedStep> place() {
    find_destinations();
    // Whether what does not come back goes past the caches is found out each time.
    if (step_.shown != schedule::kNotShown && !operation_.plan->schedule.staging_comes_back) return std::nullopt;
    if (step_.shown != schedule::kNotShown) add(operation_.at(twin_of(step_)));
    if (!is_abreast()) return std::nullopt;
    return placed();
  }

 private:
  const kernels::Reducer* reducer() const { return operation_.reducer; }
  std::size_t bytes(std::size_t elements) const { return elements * operation_.element_bytes; }
  void add(std::byte* destination) { destinations_[std::size_t(stores_++)] = destination; }
  void find_destinations() {
    const schedule::Slice into = part_of(step_.into, from_, count_);
    const bool everywhere = step_.into.owner == schedule::kEach;
    // Backwards: the operands that are folded last are the nearest to be stored to.
    for (int rank = operation_.group->size() - 1; rank >= 0 && everywhere; --rank) add(operation_.at_peer(into, rank));
    // An own slice of scratch has no owner's address; every rank's is of the caller's buffers.
    if (!everywhere) add(operation_.at(into));
  }
  bool is_abreast() const {
    return operands_ <= kAbreast && stores_ <= kAbreast && loads_all() && reducer()->reduce_all != nullptr &&
           !(step_.among && reducer()->finishes);
  }

  int rank_of(int i) const { return schedule::operand_of(step_, i); }
  bool is_read(int i) const {
    return step_.kind == Kind::fold && operation_.buffer_of(step_.from, rank_of(i)).process != nullptr;
  }
  // Whether all operands can be loaded from where they are, by the kernels.
  bool loads_all() const {
    bool loads = operation_.custom == nullptr;
    for (int i = 0; i < operands_ && loads; ++i) loads = !is_read(i);
    return loads;
  }
  // Where operand i can be loaded from, `done` elements into the piece: there, or read into `landing`.
  const std::byte* operand(int i, std::size_t done, std::size_t n, std::byte* landing) const {
    const int rank = rank_of(i);
    const schedule::Slice slice = part_of(step_.from, from_ + done, n);
    if (step_.kind == Kind::fold_staged && rank != operation_.group->rank)
      return operation_.at_staging(rank, step_.staged + from_ + done);
    if (step_.kind == Kind::fold_staged) return operation_.at(slice);
    if (!is_read(i)) return operation_.at_peer(slice, rank);
    read_peer(operation_, slice, rank, landing);
    return landing;
  }
  PlacedStep placed() const {
    PlacedStep step{Kind::fold, {}, {}, operands_, stores_, count_, bytes(count_)};
    for (int i = 0; i < operands_; ++i) step.from[std::size_t(i)] = operand(i, 0, count_, nullptr);
    std::copy_n(destinations_.begin(), stores_, step.into.begin());
    return step;
  }

  void fold_in_blocks() {
    bool reads = false;
    for (int i = 0; i < operands_; ++i) reads = reads || is_read(i);
    const std::size_t block =
        std::max<std::size_t>((reads ? kReadBlockBytes : kBlockBytes) / operation_.element_bytes, 1);
    for (std::size_t done = 0; done < count_; done += block) {
      const std::size_t n = std::min(block, count_ - done);
      std::byte* const first = destinations_[0] + bytes(done);
      const int stored = fold_block(done, n);
      for (int d = stored; d < stores_; ++d) std::memcpy(destinations_[std::size_t(d)] + bytes(done), first, bytes(n));
    }
  }
  // The operands may be anywhere, some of them at destinations: partial results stay in memory of their own until all
  // have been read. To how many destinations the result was stored.
  int fold_block(std::size_t done, std::size_t count) {
    std::byte* const dest = destinations_[0] + bytes(done);
    const bool divides = reducer() != nullptr && reducer()->finishes && !step_.among;
    const bool at_once = operands_ == 2 && !(divides && reducer()->accumulates);
    const bool wide = !at_once && operation_.custom == nullptr && reducer()->accumulates;
    // First what is read of peers (two operands are in use at a time), then the partial result.
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
  const std::size_t from_;
  const std::size_t count_;
  const int operands_;
  std::array<std::byte*, memory::kMaxLocalRanks + 1> destinations_;
  int stores_ = 0;
};

}  // namespace

void read_peer(const Operation& operation, const schedule::Slice& slice, int rank, std::byte* into) {
  const std::size_t bytes = slice.count * operation.element_bytes;
  const int error = memory::read_process(*operation.buffer_of(slice, rank).process,
                                         reinterpret_cast<std::uintptr_t>(operation.at_peer(slice, rank)), into, bytes);
  if (error != 0) throw ReadFailure{rank, error, bytes};
}

void fold_piece(Operation& operation, const schedule::Step& step, std::size_t from, std::size_t count) {
  PieceFold(operation, step, from, count).run();
}

std::optional<PlacedStep> place_fold(Operation& operation, const schedule::Step& step) {
  return PieceFold(operation, step, 0, step.into.count).place();
}

}  // namespace anello::executor
