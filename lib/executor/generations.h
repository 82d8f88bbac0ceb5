#pragma once
// A communicator's generation: the upper half of its id, which counts alike on all of its ranks. It separates frames of
// a communicator that this rank is still about to make from frames of a destroyed one, so no list of destroyed ones is
// needed.
//
// This is a logical clock (Lamport, 1978). Each rank brings the newest generation that it knows to the making of a
// communicator; the new generation is above all of these; the first communicator's is 0. So every communicator that a
// rank has yet to make is newer than the generation it brought. Requires the rank's lock.
#include <cstdint>
#include <optional>
#include <set>

namespace anello::executor {

class Generations {
 public:
  static constexpr std::uint64_t id(std::uint32_t generation, std::uint32_t rest) {
    return std::uint64_t{generation} << 32 | rest;
  }
  static constexpr std::uint32_t of(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 32); }
  // The generation of a communicator whose ranks brought at most this. Throws Error after four billion.
  static std::uint32_t above(std::uint32_t brought);

  // This rank begins to make a communicator. Returns the generation that it brings.
  std::uint32_t begin();
  // The making that brought this has ended, with a communicator or with an error.
  void end(std::uint32_t brought);
  // A communicator exists, and its id identifies its frames.
  void made(std::uint64_t id);

  // No communicator of this id will be made here any more.
  bool is_past(std::uint64_t id) const;

 private:
  std::optional<std::uint32_t> newest_;
  std::multiset<std::uint32_t> under_way_;  // the generations brought
};

}  // namespace anello::executor
