#pragma once
// Data whose results are known exactly: small integers that differ per rank and element, and their reduction computed
// here, without Anello. Everything repeats after kPeriod elements, a prime, so that a block or chunk in the wrong place
// is found, and filling and checking cost no more than a memory copy.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace perf {

inline constexpr std::size_t kPeriod = 4093;

// kPeriod elements, encoded.
using Block = std::vector<unsigned char>;

// Whether op is valid for dtype. This repeats the library's table, so that a library that refuses too much fails.
bool makes_sense(anello_dtype_t dtype, anello_op_t op);

// The input of rank. Requires, here and below: the pair is valid. op decides the range: sums, products and averages of
// any number of ranks stay exact, or round once if a small type cannot hold them. seed gives other data of the same
// kind.
Block input(anello_dtype_t dtype, anello_op_t op, int rank, int ranks, std::uint64_t seed);
// The input for collectives that only move data.
Block moved(anello_dtype_t dtype, int rank, std::uint64_t seed);
// The reduction of input(.., rank, ..) over the first `over` of all ranks.
Block reduced(anello_dtype_t dtype, anello_op_t op, int over, int ranks, std::uint64_t seed);
// Over all ranks.
inline Block reduced(anello_dtype_t dtype, anello_op_t op, int ranks, std::uint64_t seed) {
  return reduced(dtype, op, ranks, ranks, seed);
}

// Element i of the buffer becomes element (first + i) of the endless repetition of block.
void fill(void* buffer, std::size_t count, std::size_t element_bytes, const Block& block, std::size_t first);
// The number of elements of the buffer that differ from this.
std::int64_t wrong(const void* buffer, std::size_t count, std::size_t element_bytes, const Block& block,
                   std::size_t first);

}  // namespace perf
