#pragma once
// Data races: two accesses of different threads to the same byte, one of them a store and one of them plain, neither of
// which happens before the other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace anello::weak_memory {

inline constexpr int kMaxThreads = 4;
using Clock = std::array<std::uint32_t, kMaxThreads>;

struct Access {
  std::uintptr_t code;  // address of the instruction behind it
  std::uint32_t when;   // the thread's own count
  std::uint8_t offset, bytes;
  std::uint8_t thread;
  bool writes, is_atomic;
};

class Races {
 public:
  void begin() {
    for (const std::uintptr_t line : used_) lines_[line].clear();
    used_.clear();
  }
  // Returns an earlier access that this one races with, or null. now: what happens before this access.
  const Access* touch(int thread, const Clock& now, std::uintptr_t at, std::size_t bytes, bool writes, bool is_atomic,
                      std::uintptr_t code);

 private:
  static constexpr std::size_t kLine = 64;
  std::unordered_map<std::uintptr_t, std::vector<Access>> lines_;
  std::vector<std::uintptr_t> used_;  // those that are not empty
};

}  // namespace anello::weak_memory
