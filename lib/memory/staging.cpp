#include "memory/staging.h"

namespace anello::memory {

Extent Staging::find_range(const Arena& arena, int board, int ranks, std::size_t each) {
  const std::size_t wanted = std::size_t(ranks) * each;
  BoardStaging& known = arena.header().board_staging[board];
  if (known.bytes >= wanted) {
    if (const auto range = Extent::of_peer(arena, known.offset, wanted); range.offset() != 0) return range;
  }
  const auto range = Extent::reserve(arena, wanted);
  if (range.offset() != 0) known = {range.offset(), wanted};
  return range;
}

void Staging::give_pages_back(const Arena& arena, int board) {
  const BoardStaging known = arena.header().board_staging[board];
  if (known.bytes > 0) Extent::of_peer(arena, known.offset, known.bytes).give_back();
}

bool Staging::map(const Arena& arena, int ranks, int rank, std::size_t each) {
  bytes = each;
  range = Extent::of_peer(arena, offset, std::size_t(ranks) * bytes);
  mapping = range.map();
  if (!mapping || !range.back(mapping, std::size_t(rank) * bytes, bytes)) return false;
  at.clear();
  for (int owner = 0; owner < ranks; ++owner) at.push_back(mapping.data() + std::size_t(owner) * bytes);
  return true;
}

void Staging::give_up(int rank) {
  if (mapping) range.give_back(std::size_t(rank) * bytes, bytes);
  mapping = {};
  at.clear();
}

}  // namespace anello::memory
