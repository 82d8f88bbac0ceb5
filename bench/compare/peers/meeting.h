// The page on which the ranks of a timing loop meet, whatever library they measure: a file that compare.py makes and
// removes and all ranks map. Barriers, times and the loop's plan go through it, so that no library measures itself, and
// none gets progress that another does not get.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <time.h>

namespace compare {

constexpr int kMaxRanks = 64;

inline double now_seconds(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Meeting final {
 public:
  // Requires: path names a file of at least sizeof(Page) zero bytes, the same on every rank.
  Meeting(const std::string& path, int rank, int size, size_t processors, double limit_seconds)
      : rank_(rank),
        size_(size),
        looks_(static_cast<size_t>(size) > processors ? 1 : 1000),
        end_(now_seconds() + limit_seconds) {
    if (size < 1 || size > kMaxRanks || rank < 0 || rank >= size) throw std::runtime_error("too many ranks to meet");
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) throw std::runtime_error("cannot open the meeting file " + path);
    void* address = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (address == MAP_FAILED) throw std::runtime_error("cannot map the meeting file " + path);
    page_ = static_cast<Page*>(address);
    page_->ranks[rank].pid.store(getpid());
  }
  ~Meeting() { munmap(page_, sizeof(Page)); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  void barrier() {
    const uint32_t generation = page_->generation.load();
    if (page_->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
      page_->arrived.store(0);
      page_->generation.store(generation + 1);
      return;
    }
    wait([&] { return page_->generation.load() != generation; });
  }

  // The maximum and the sum of the ranks' values. Collective.
  struct Gathered {
    double largest;
    double sum;
  };
  Gathered gather(double mine) {
    page_->ranks[rank_].value = mine;
    barrier();
    Gathered result{page_->ranks[0].value, 0};
    for (int r = 0; r < size_; ++r) {
      const double value = page_->ranks[r].value;
      if (value > result.largest) result.largest = value;
      result.sum += value;
    }
    barrier();  // A rank that continues may overwrite its value.
    return result;
  }

  // Rank 0's value, on every rank. Collective.
  double decided(double value) {
    if (rank_ == 0) page_->decision = value;
    barrier();
    const double result = page_->decision;
    barrier();
    return result;
  }

  // The nanoseconds that a cache line takes from rank 0's core to rank 1's. Collective; 0 if ranks share cores, because
  // this would measure the scheduler.
  double line_ns(bool own_cores) {
    if (size_ < 2 || !own_cores) return 0;
    barrier();
    if (rank_ < 2) {
      constexpr uint32_t kRounds = 100;
      constexpr int kTries = 10;
      double best = 1e9;
      for (int attempt = 0; attempt < kTries; ++attempt) {
        const double begin = now_seconds();
        for (uint32_t round = 0; round < kRounds; ++round) {
          const uint32_t mine = ++probe_;
          if (rank_ == 0) page_->ping.store(mine, std::memory_order_release);
          std::atomic<uint32_t>& awaited = rank_ == 0 ? page_->pong : page_->ping;
          for (uint32_t spins = 0; awaited.load(std::memory_order_acquire) != mine;) {
            relax();
            if (++spins % 100000 == 0) check();
          }
          if (rank_ == 1) page_->pong.store(mine, std::memory_order_release);
        }
        const double one_way = (now_seconds() - begin) / kRounds / 2;
        if (one_way < best) best = one_way;
      }
      if (rank_ == 0) page_->decision = best * 1e9;
    }
    barrier();
    const double result = page_->decision;
    barrier();
    return result;
  }

  // Ends the waits of all ranks with an error.
  void fail() { page_->failed.store(1); }

 private:
  struct alignas(128) Rank {
    double value;
    std::atomic<int32_t> pid;  // read by compare.py, which ends processes that exceed their limit: see job.py
  };
  struct Page {
    Rank ranks[kMaxRanks];
    alignas(128) std::atomic<uint32_t> arrived;
    alignas(128) std::atomic<uint32_t> generation;
    alignas(128) std::atomic<uint32_t> ping;
    alignas(128) std::atomic<uint32_t> pong;
    alignas(128) double decision;
    std::atomic<uint32_t> failed;
  };

  void check() const {
    if (page_->failed.load() != 0) throw std::runtime_error("another rank failed");
    if (now_seconds() > end_) throw std::runtime_error("the time limit has passed");
  }

  template <typename Condition>
  void wait(Condition condition) const {
    for (uint32_t spins = 1; !condition(); ++spins) {
      if (spins < looks_) {
        relax();
        continue;
      }
      sched_yield();
      if (spins % 1000 == 0) check();
    }
  }

  const int rank_;
  const int size_;
  const uint32_t looks_;  // before each yield; where ranks share processors, a rank of this one is waited for
  const double end_;
  uint32_t probe_ = 0;
  Page* page_ = nullptr;
};

}  // namespace compare
