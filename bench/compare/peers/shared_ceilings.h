// Ceilings in shared memory. See README.md, "Ceilings".
#pragma once

#include <sys/prctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "ceiling.h"
#include "sum.h"

namespace compare {

// The whole vector, cut in two at a line's boundary: the part that rank 0 reduces, and the part that rank 1 reduces.
struct Halves {
  explicit Halves(size_t count) : middle(std::min(count, (count / 2 + 15) / 16 * 16)), end(count) {}
  size_t begin_of(int rank) const { return rank == 0 ? 0 : middle; }
  size_t count_of(int rank) const { return rank == 0 ? middle : end - middle; }
  size_t middle, end;
};

// Buffers that both ranks have mapped: each sums its half of both and stores it to both.
class Direct final : public Ceiling {
 public:
  explicit Direct(const Options& options) : Ceiling(options) { only_two(); }

  void* allocate(size_t bytes) {
    ++generation_;
    own_ = std::make_unique<SharedFile>(path(rank_), bytes);
    return own_->get();
  }
  void deallocate(void*) {
    unlink(path(rank_).c_str());
    own_.reset();
  }
  void prepare(float* data, size_t count) {
    Ceiling::prepare(data, count);
    peer_ = std::make_unique<SharedFile>(path(1 - rank_), count * sizeof(float));
    theirs_ = static_cast<float*>(peer_->get());
    // Mapping is not enough: the first access of this process to each page is a fault.
    volatile float sink = 0;
    for (size_t i = 0; i < count; i += 1024) sink = theirs_[i];
    (void)sink;
    meet();  // Before any rank unlinks it.
  }
  void release() {
    meet();
    peer_.reset();
  }
  void allreduce() {
    const Halves halves(count_);
    const size_t begin = halves.begin_of(rank_);
    meet();
    sum_to_both(data_ + begin, theirs_ + begin, halves.count_of(rank_));
    meet();
  }

 private:
  std::string path(int rank) const {
    return directory_ + "/buffer" + std::to_string(rank) + "." + std::to_string(generation_);
  }

  int generation_ = 0;
  std::unique_ptr<SharedFile> own_, peer_;
  float* theirs_ = nullptr;
};

// Values and flag in one cache line; each rank alternates between two lines, so one exchange is enough.
class OneLine final : public Ceiling {
 public:
  explicit OneLine(const Options& options) : Ceiling(options), file_(options.directory + "/lines", sizeof(Line) * 4) {
    only_two();
  }
  void allreduce() {
    ++call_;
    Line* const lines = static_cast<Line*>(file_.get());
    Line& mine = lines[2 * rank_ + static_cast<int>(call_ % 2)];
    Line& theirs = lines[2 * (1 - rank_) + static_cast<int>(call_ % 2)];
    for (size_t i = 0; i < count_; ++i) mine.values[i] = data_[i];
    mine.flag.store(call_, std::memory_order_release);
    wait_until(theirs.flag, call_);
    for (size_t i = 0; i < count_; ++i) data_[i] += theirs.values[i];
  }
  static constexpr size_t kLargest = 15 * sizeof(float);

 private:
  struct alignas(128) Line {
    alignas(64) float values[15];
    Counter flag;
  };
  const SharedFile file_;
  uint32_t call_ = 0;
};

// A rank copies the whole vector into its slot, sets a flag, and adds the peer's slot.
class OneShot final : public Ceiling {
 public:
  explicit OneShot(const Options& options) : Ceiling(options), file_(options.directory + "/slots", 4 * kLargest) {
    only_two();
  }
  void allreduce() {
    ++call_;
    std::memcpy(slot(rank_), data_, count_ * sizeof(float));
    mine().sent.value.store(call_, std::memory_order_release);
    wait_until(theirs().sent.value, call_);
    add(data_, slot(1 - rank_), count_);
  }
  static constexpr size_t kLargest = size_t{1} << 20;

 private:
  float* slot(int rank) const {
    return reinterpret_cast<float*>(static_cast<char*>(file_.get()) +
                                    kLargest * (2 * static_cast<size_t>(rank) + call_ % 2));
  }
  const SharedFile file_;
  uint32_t call_ = 0;
};

// A ring of slots that stay in cache: a rank copies the peer's half into a slot, and the peer adds it to its own and
// returns the sum through that slot. --setting staged-KIB.
class Staged final : public Ceiling {
 public:
  explicit Staged(const Options& options)
      : Ceiling(options),
        block_(std::stoul(options.setting.substr(options.setting.find('-') + 1)) * 1024 / sizeof(float)),
        file_(options.directory + "/slots", 2 * kSlots * block_ * sizeof(float)) {
    only_two();
  }

  void allreduce() {
    const Halves halves(count_);
    const int peer = 1 - rank_;
    float* const own = data_ + halves.begin_of(rank_);
    float* const other = data_ + halves.begin_of(peer);
    const size_t own_count = halves.count_of(rank_), other_count = halves.count_of(peer);
    const size_t blocks = (std::max(own_count, other_count) + block_ - 1) / block_;
    for (size_t i = 0; i < blocks + 2; ++i) {
      if (i < blocks) {
        std::memcpy(slot(rank_, i), other + i * block_, size_of(i, other_count) * sizeof(float));
        mine().sent.value.store(done_ + static_cast<uint32_t>(i) + 1, std::memory_order_release);
      }
      if (const size_t j = i - 1; i >= 1 && j < blocks) {
        wait_until(theirs().sent.value, done_ + static_cast<uint32_t>(j) + 1);
        sum_to_both(own + j * block_, slot(peer, j), size_of(j, own_count));
        mine().returned.value.store(done_ + static_cast<uint32_t>(j) + 1, std::memory_order_release);
      }
      if (const size_t k = i - 2; i >= 2) {
        wait_until(theirs().returned.value, done_ + static_cast<uint32_t>(k) + 1);
        std::memcpy(other + k * block_, slot(rank_, k), size_of(k, other_count) * sizeof(float));
      }
    }
    done_ += static_cast<uint32_t>(blocks);
  }

 private:
  static constexpr size_t kSlots = 4;  // a slot is emptied by its owner two steps after it was filled

  size_t size_of(size_t block, size_t count) const {
    return count <= block * block_ ? 0 : std::min(block_, count - block * block_);
  }
  float* slot(int rank, size_t block) const {
    return static_cast<float*>(file_.get()) + block_ * (kSlots * static_cast<size_t>(rank) + (done_ + block) % kSlots);
  }

  const size_t block_;  // elements
  const SharedFile file_;
  uint32_t done_ = 0;  // blocks of all earlier calls
};

// Cross-memory attach: reads this rank's half of the peer's buffer in pieces that fit the cache and sums them in place;
// then reads the peer's reduced half.
class Attach final : public Ceiling {
 public:
  explicit Attach(const Options& options) : Ceiling(options), file_(options.directory + "/attach", 2 * sizeof(Place)) {
    only_two();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // For Yama; without Yama the call has no effect.
  }
  void prepare(float* data, size_t count) {
    Ceiling::prepare(data, count);
    places()[rank_] = {getpid(), data};
    meet();
    peer_ = places()[1 - rank_];
    meet();
  }
  void allreduce() {
    const Halves halves(count_);
    meet();
    const size_t begin = halves.begin_of(rank_), end = begin + halves.count_of(rank_);
    for (size_t i = begin; i < end; i += kPiece) {
      const size_t count = std::min(kPiece, end - i);
      read(piece_.data(), i, count);
      add(data_ + i, piece_.data(), count);
    }
    meet();
    read(data_ + halves.begin_of(1 - rank_), halves.begin_of(1 - rank_), halves.count_of(1 - rank_));
    meet();
  }

 private:
  struct Place {
    pid_t pid;
    float* data;
  };
  static constexpr size_t kPiece = (size_t{256} << 10) / sizeof(float);

  Place* places() const { return static_cast<Place*>(file_.get()); }

  void read(float* into, size_t begin, size_t count) const {
    while (count > 0) {
      // The kernel reads less than 2 GiB at a time.
      const size_t bytes = std::min(count * sizeof(float), size_t{1} << 30);
      const iovec local{into, bytes}, remote{peer_.data + begin, bytes};
      const ssize_t got = process_vm_readv(peer_.pid, &local, 1, &remote, 1, 0);
      if (got <= 0 || got % 4 != 0) throw std::runtime_error(std::string("process_vm_readv: ") + std::strerror(errno));
      const size_t values = static_cast<size_t>(got) / sizeof(float);
      into += values;
      begin += values;
      count -= values;
    }
  }

  const SharedFile file_;
  Place peer_{};
  std::vector<float> piece_ = std::vector<float>(kPiece);
};

// One cache line, one way: ranks take turns, so a call is one crossing.
class LineExchange final : public Ceiling {
 public:
  explicit LineExchange(const Options& options) : Ceiling(options) { only_two(); }
  void allreduce() {
    ++call_;
    if (static_cast<int>(call_ % 2) == rank_)
      mine().sent.value.store(call_, std::memory_order_release);
    else
      wait_until(theirs().sent.value, call_);
  }
  void check() const {
    if (theirs().sent.value.load() + 1 < call_) throw std::runtime_error("a line did not arrive");
  }

 private:
  uint32_t call_ = 0;
};

// Copies as many vectors as there are ranks, and moves 2 bytes for each byte, at the rate that all processors reach
// together. A single vector would stay in a near cache, so the copy goes from one half of the memory of a processor's
// ranks to the other half and back. One rank of each processor does all of it, so that no time slice hides another
// rank's work.
class Copy final : public Ceiling {
 public:
  explicit Copy(const Options& options)
      : Ceiling(options),
        mine_((static_cast<size_t>(size_ - 1 - rank_)) / options.processors + 1),
        works_(static_cast<size_t>(rank_) < options.processors),
        held_(std::max<size_t>(2, mine_)) {}
  void prepare(float* data, size_t count) {
    Ceiling::prepare(data, count);
    others_.assign(works_ ? count * (held_ - 1) : 0, -1.0f);
  }
  void release() { std::vector<float>().swap(others_); }
  void allreduce() {
    if (!works_) return;
    for (size_t i = 0; i < mine_; ++i) {
      from_ = (from_ + 1) % held_;
      std::memcpy(vector(to()), vector(from_), count_ * sizeof(float));
    }
    asm volatile("" ::: "memory");
  }
  void check() {
    if (works_ && std::memcmp(vector(to()), vector(from_), count_ * sizeof(float)) != 0)
      throw std::runtime_error("the copy differs");
  }

 private:
  float* vector(size_t which) { return which == 0 ? data_ : others_.data() + (which - 1) * count_; }
  size_t to() const { return (from_ + held_ / 2) % held_; }

  const size_t mine_;  // vectors of the ranks on this rank's processor
  const bool works_;
  const size_t held_;
  size_t from_ = 0;
  std::vector<float> others_;  // all but the first, which is the loop's buffer
};

}  // namespace compare
