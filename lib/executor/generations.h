#pragma once
// When a communicator was made, counted alike on all of its ranks: the upper half of its id. It tells frames of a
// communicator that this rank is still about to make from those of one that it has destroyed, and so no list of
// destroyed ones is kept.
//
// This is a logical clock (Lamport, 1978). To the making of a communicator each rank brings the newest generation that
// it knows; the new one's is above all of these; the first communicator's is 0. So whatever a rank has yet to make is
// newer than what it brought. Requires the rank's lock.
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
  // Of a communicator whose ranks brought at most this. Throws Error: four billion were made.
  static std::uint32_t above(std::uint32_t brought);

  // This rank begins to make a communicator: what it brings.
  std::uint32_t begin();
  // What began with it has ended, with a communicator or with an error.
  void end(std::uint32_t brought);
  // There is one, and its frames are told by its id.
  void made(std::uint64_t id);

  // No communicator of this id will be made here any more.
  bool is_past(std::uint64_t id) const;

 private:
  std::optional<std::uint32_t> newest_;
  std::multiset<std::uint32_t> under_way_;  // what was brought
};

}  // namespace anello::executor
