#pragma once
// A communicator's staging memory: one range behind the arena with a part for each rank. A rank stores into its own
// part and loads from all. On the first call that needs it, rank 0 finds the range, each rank maps it and backs its own
// part, and the ranks tell each other on the board whether they could. The range belongs to the board; the last rank to
// leave the board gives the pages back.
#include "memory/extent.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::memory {

struct Staging {
  enum class State : std::uint8_t { none, ready, failed };  // equal on all ranks

  // Finds a range for `ranks` ranks of `each` bytes: the board's, or a new one. Offset 0 if there is no memory.
  static Extent find_range(const Arena& arena, int board, int ranks, std::size_t each);
  // Requires: no rank uses the board's staging memory any more.
  static void give_pages_back(const Arena& arena, int board);

  // Maps the range that rank 0 has found and backs this rank's part. False if that fails here.
  bool map(const Arena& arena, int ranks, int rank, std::size_t each);
  // Some rank could not map or back it, so no rank uses it.
  void give_up(int rank);

  // Takes bytes for the next call; all ranks get the same place. Calls whose memory comes back reuse few places if
  // possible, which stay in the rank's caches. Other calls rotate through all: bytes that a peer has loaded lie in its
  // caches.
  std::size_t take(std::size_t wanted, bool comes_back) {
    const std::size_t place = place_of(wanted, comes_back);
    from = place;
    to = comes_back ? place : place + whole_lines(wanted);
    if (comes_back) back_to = place + whole_lines(wanted);
    return place;
  }
  // Whether the next call's bytes are apart from the last call's, which others may still load.
  bool apart(std::size_t wanted, bool comes_back) const {
    const std::size_t at_next = place_of(wanted, comes_back);
    return from == to || at_next >= to || at_next + whole_lines(wanted) <= from;
  }

  State state = State::none;
  std::size_t bytes = 0;  // of each rank
  std::size_t from = 0;   // where the last call's bytes begin; `to` ends them
  std::size_t to = 0;
  std::size_t back_to = 0;   // end of the last call whose memory came back
  std::uint64_t offset = 0;  // of the range, from rank 0; 0 if it found none
  Extent range;              // mapped here
  ExtentMapping mapping;
  std::vector<std::byte*> at;  // by rank

 private:
  // Lines that the peer has touched arrive sooner once its nearest cache has replaced them and only the next one holds
  // them. So calls that are large for the nearest cache rotate over few enough places to stay in the next one.
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
