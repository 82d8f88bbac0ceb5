#pragma once
// Who wrote each element of one buffer last, and who has read it since: from this a step's dependencies follow.
// Kept as intervals, so that thousands of steps over millions of elements cost a logarithm each.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace anello::schedule {

class AccessMap {
 public:
  // Appends the steps that must be done before [begin, end) is read: its last writers.
  void before_read(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& steps);
  // Appends the steps that must be done before it is written: its readers since, or where there is none, the last
  // writer (readers themselves came after the writer).
  void before_write(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& steps);

  void read(std::size_t begin, std::size_t end, std::uint32_t step);
  void write(std::size_t begin, std::size_t end, std::uint32_t step);

 private:
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  struct Interval {
    std::size_t end = 0;
    std::uint32_t writer = kNobody;
    std::vector<std::uint32_t> readers;
  };
  using Map = std::map<std::size_t, Interval>;  // by begin; disjoint

  void cut(std::size_t at);  // no interval crosses at afterwards
  Map::iterator first_overlap(std::size_t begin);

  Map intervals_;
};

}  // namespace anello::schedule
