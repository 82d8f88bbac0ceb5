#pragma once
// Judges whether an element of a reduction is allowed. If the order of reduction is fixed (an invariant result) or
// cannot matter, only the oracle's bits are allowed. Otherwise any result is allowed that rounding in some order can
// give.
#include "support/oracle.h"

#include <atomic>
#include <string>

namespace anello::results {

class Judge {
 public:
  // operands[rank]: count elements each; element i of the result is over ranks 0 to last. size: what AVG divides by.
  Judge(anello_dtype_t dtype, anello_op_t op, const std::vector<std::vector<unsigned char>>& operands, int last,
        int size, bool rank_order);

  // What is wrong with the elements first, first + 1, ..; "" when nothing is.
  std::string look(const unsigned char* got, std::size_t first, std::size_t count) const;
  // How many of the elements looked at so far were held to bits, to an interval, or to neither.
  struct Seen {
    std::atomic<std::size_t> bits{0}, interval{0}, neither{0};  // of all ranks, which are threads
  };
  const Seen& seen() const { return seen_; }

 private:
  std::string look_at_interval(const unsigned char* got, std::size_t i) const;

  anello_dtype_t dtype_;
  anello_op_t op_;
  const std::vector<std::vector<unsigned char>>& operands_;
  int last_;
  int size_;
  bool exact_;  // any order gives the same bits, or the order is that of ranks
  std::size_t element_;
  std::vector<unsigned char> expected_;
  mutable Seen seen_;
};

// From this element on, each fourth is a small whole number (a factor of few bits, for PROD): sums and products of them
// are exact in float32, in any order.
inline constexpr std::size_t kExactEvery = 4;
std::vector<unsigned char> operands(anello_dtype_t dtype, anello_op_t op, int rank, std::size_t count);

}  // namespace anello::results
