#pragma once
// Cuts a vector into blocks, one per rank, and each block into chunks. Every rank computes the same cuts.
#include <cstddef>

namespace anello::schedule {

// A range of a vector, in elements, without a buffer.
struct Part {
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const Part&) const = default;
};

// value modulo size, never negative: ring positions may run below zero or past the end.
int wrap(int value, int size);

// Block index of `blocks` that begin at multiples of `unit` elements; the last ones of a short vector are empty.
// Requires: unit >= 1, 0 <= index < blocks.
Part aligned_block(std::size_t count, int blocks, std::size_t unit, int index);

class Split {
 public:
  // Requires: blocks >= 1, chunk >= 1. Blocks differ by at most one element, and the longer ones come first.
  Split(std::size_t count, int blocks, std::size_t chunk);

  // Block index modulo the number of blocks.
  Part block(int index) const;
  // Chunk c of that block; empty past its last chunk, since blocks may differ by one chunk.
  Part chunk(int index, std::size_t c) const;
  // How many blocks have a chunk c: the first ones.
  int holders(std::size_t c) const;
  // Chunks of the longest block.
  std::size_t chunks() const { return chunks_; }
  // Elements of the longest chunk.
  std::size_t longest() const { return longest_; }

 private:
  int blocks_;
  std::size_t base_;   // elements of a shorter block
  std::size_t extra_;  // how many blocks have one more
  std::size_t chunk_;
  std::size_t chunks_;
  std::size_t longest_;
};

}  // namespace anello::schedule
