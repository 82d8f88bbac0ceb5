#pragma once
// Numbers that depend on the seed alone, the same on every machine and in every process.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace anello::model {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // 0 to bound - 1; 0 for a bound of 0.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>((*this)() % bound); }
  int below(int bound) { return static_cast<int>(below(static_cast<std::size_t>(bound))); }
  bool one_in(int n) { return below(n) == 0; }
  bool percent(int p) { return below(100) < p; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

// A seed of its own for each part of what has `seed`.
inline std::uint64_t mix(std::uint64_t seed, std::uint64_t part) {
  return Random(seed ^ (part * 0xd6e8feb86659fd93ull))();
}

}  // namespace anello::model
