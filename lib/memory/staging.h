#pragma once
// A communicator's staging memory: one range behind the arena with a part for each rank, which stores into its own and
// loads from all. When the first call wants it, rank 0 finds the range, each rank maps it and backs its own part, and
// they tell each other on the board whether all could. The range belongs to the board; the last rank to leave the board
// gives the pages back.
#include "memory/extent.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::memory {

struct Staging {
  enum class State : std::uint8_t { none, ready, failed };  // alike on all ranks

  // A range for that many ranks, with so many bytes of each: the board's, or a new one. Offset 0: there is none to be
  // had.
  static Extent find_range(const Arena& arena, int board, int ranks, std::size_t each);
  // Requires: no rank uses the board's staging memory any more.
  static void give_pages_back(const Arena& arena, int board);

  // Maps what rank 0 has found and backs this rank's part. False: not to be had here.
  bool map(const Arena& arena, int ranks, int rank, std::size_t each);
  // Not all could: nobody uses it.
  void give_up(int rank);

  // Where this many bytes are taken for the next call, the same on all ranks. Those of calls whose memory comes back
  // are few, if they can be: they stay in its caches. Others take turns in all: what a peer has loaded lies in its
  // caches.
  std::size_t take(std::size_t wanted, bool comes_back) {
    const std::size_t place = place_of(wanted, comes_back);
    from = place;
    to = comes_back ? place : place + whole_lines(wanted);
    if (comes_back) back_to = place + whole_lines(wanted);
    return place;
  }
  // Whether the next call's are none of the last one's, which others may still load.
  bool apart(std::size_t wanted, bool comes_back) const {
    const std::size_t at_next = place_of(wanted, comes_back);
    return from == to || at_next >= to || at_next + whole_lines(wanted) <= from;
  }

  State state = State::none;
  std::size_t bytes = 0;  // of each rank
  std::size_t from = 0;   // the last call's, up to `to`
  std::size_t to = 0;
  std::size_t back_to = 0;   // behind the last call's whose memory came back
  std::uint64_t offset = 0;  // of the range, as rank 0 said; 0: it has none
  Extent range;              // mapped here
  ExtentMapping mapping;
  std::vector<std::byte*> at;  // by rank

 private:
  // Lines that the peer has touched come sooner once its nearest cache has others and only the next one still holds
  // them. So calls that are large for the nearest one take turns, over few enough places to stay in the next.
  static constexpr std::size_t kTurns = 192 * 1024;
  static constexpr std::size_t kTakesTurns = 20 * 1024;

  static std::size_t whole_lines(std::size_t wanted) { return (wanted + 63) / 64 * 64; }
  std::size_t place_of(std::size_t wanted, bool comes_back) const {
    const bool nobodys = from == to;
    if (comes_back && nobodys && wanted >= kTakesTurns && back_to + whole_lines(wanted) <= kTurns) return back_to;
    if (comes_back && (nobodys || whole_lines(wanted) <= from)) return 0;
    return to + whole_lines(wanted) <= bytes ? to : 0;
  }
};

}  // namespace anello::memory
