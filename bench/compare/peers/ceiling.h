// The common part of the ceilings: short hand-written programs for two ranks that show the best that the machine
// allows. They run in the timing loop like libraries, so that their figures come from the same minutes, processors and
// noise.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "meeting.h"
#include "options.h"

namespace compare {

// Memory that ranks share: a mapped file in --directory; the first rank makes it, filled with zeros.
class SharedFile final {
 public:
  SharedFile(const std::string& path, size_t bytes) : bytes_(bytes) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) throw std::runtime_error("cannot open " + path);
    const bool sized = ftruncate(fd, static_cast<off_t>(bytes)) == 0;
    address_ = sized ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (address_ == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  }
  ~SharedFile() { munmap(address_, bytes_); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void* get() const { return address_; }

 private:
  const size_t bytes_;
  void* address_ = nullptr;
};

inline int number_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return std::atoi(value);
}

using Counter = std::atomic<uint32_t>;

// Counters wrap after more calls than any run makes.
inline void wait_until(const Counter& counter, uint32_t value) {
  while (counter.load(std::memory_order_acquire) < value) relax();
}

class Ceiling {
 public:
  explicit Ceiling(const Options& options)
      : directory_(options.directory), rank_(number_of("RANK")), size_(number_of("WORLD_SIZE")) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const { return "ceilings of this machine"; }
  void prepare(float* data, size_t count) {
    data_ = data;
    count_ = count;
  }
  void release() {}

 protected:
  // The flags of both ranks, each on its own line; adjacent lines are fetched in pairs.
  struct Flags {
    struct alignas(128) Flag {
      Counter value;
    };
    Flag met, sent, returned;
  };

  void only_two() const {
    if (size_ != 2) throw std::runtime_error("this ceiling is of 2 ranks");
  }

  // Both ranks have arrived: this takes one line each way.
  void meet() {
    ++meetings_;
    mine().met.value.store(meetings_, std::memory_order_release);
    wait_until(theirs().met.value, meetings_);
  }

  Flags& mine() const { return flags_[rank_]; }
  Flags& theirs() const { return flags_[1 - rank_]; }

  const std::string directory_;
  const int rank_;
  const int size_;
  float* data_ = nullptr;
  size_t count_ = 0;

 private:
  const SharedFile page_{directory_ + "/flags", 2 * sizeof(Flags)};
  Flags* const flags_ = static_cast<Flags*>(page_.get());
  uint32_t meetings_ = 0;
};

}  // namespace compare
