#include "schedule/split.h"

#include <algorithm>

namespace anello::schedule {

int wrap(int value, int size) {
  const int rest = value % size;
  return rest < 0 ? rest + size : rest;
}

Part aligned_block(std::size_t count, int blocks, std::size_t unit, int index) {
  const Part units = Split((count + unit - 1) / unit, blocks, 1).block(index);
  const std::size_t begin = std::min(units.offset * unit, count);
  return {begin, std::min((units.offset + units.count) * unit, count) - begin};
}

Split::Split(std::size_t count, int blocks, std::size_t chunk)
    : blocks_(blocks),
      base_(count / static_cast<std::size_t>(blocks)),
      extra_(count % static_cast<std::size_t>(blocks)),
      chunk_(chunk) {
  const std::size_t block_count = base_ + (extra_ > 0 ? 1 : 0);
  chunks_ = block_count / chunk_ + (block_count % chunk_ > 0 ? 1 : 0);
  longest_ = std::min(chunk_, block_count);
}

Part Split::block(int index) const {
  const auto b = static_cast<std::size_t>(wrap(index, blocks_));
  return {b * base_ + std::min(b, extra_), base_ + (b < extra_ ? 1 : 0)};
}

Part Split::chunk(int index, std::size_t c) const {
  const Part whole = block(index);
  const std::size_t begin = std::min(c * chunk_, whole.count);
  return {whole.offset + begin, std::min(chunk_, whole.count - begin)};
}

int Split::holders(std::size_t c) const {
  const std::size_t begin = c * chunk_;
  if (begin < base_) return blocks_;
  return begin == base_ ? static_cast<int>(extra_) : 0;
}

}  // namespace anello::schedule
