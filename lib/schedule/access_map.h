#pragma once
// Records which step wrote each element of a buffer last and which steps have read it since. A step's dependencies
// follow from this. The record is kept as intervals, so thousands of steps over millions of elements cost a logarithm
// each.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace anello::schedule {

class AccessMap {
 public:
  // Appends the steps that must be done before [begin, end) is read: its last writers.
  void before_read(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& steps);
  // Appends the steps that must be done before it is written: its readers since the last write, or the last writer if
  // there is no reader (a reader itself comes after the writer).
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
