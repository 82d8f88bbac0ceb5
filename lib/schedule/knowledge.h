#pragma once
// The substitute for data in calls that have none: which ranks have entered the call, one bit each.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::schedule {

class Knowledge {
 public:
  explicit Knowledge(std::size_t ranks = 0) : words_(ranks / 64 + 1) {}

  void learn(int rank) {
    const auto bit = static_cast<std::size_t>(rank);
    words_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  void learn(const Knowledge& from) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= from.words_[w];
  }
  bool has(int rank) const {
    const auto bit = static_cast<std::size_t>(rank);
    return (words_[bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace anello::schedule
