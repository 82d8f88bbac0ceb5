#pragma once
// Chooses the schedule of a call that may go over peers' memory, from the ranks' announcements: maps the memory that
// was announced, agrees on what all ranks reach, and begins. All ranks read identical lines, so all draw identical
// conclusions. Requires the rank's lock.
#include "executor/group.h"
#include "executor/parts.h"
#include "executor/shadow.h"
#include "memory/arena.h"
#include "transports/remote_memory.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

// A line of the round `agree`: bit i is set where this rank has not mapped the memory that rank i announced, or cannot
// read its process.
struct Lacking {
  using Ranks = std::array<std::uint64_t, memory::kMaxLocalRanks / 64>;
  Ranks mapping{};
  Ranks reading{};

  static void add(Ranks& ranks, std::size_t rank) { ranks[rank / 64] |= std::uint64_t{1} << (rank % 64); }
  static bool has(const Ranks& ranks, std::size_t rank) { return (ranks[rank / 64] >> (rank % 64) & 1) != 0; }
  void join(const Lacking& other) {
    for (std::size_t word = 0; word < mapping.size(); ++word) {
      mapping[word] |= other.mapping[word];
      reading[word] |= other.reading[word];
    }
  }
};
static_assert(sizeof(Lacking) <= memory::kBoardBytes);

class Entering {
 public:
  explicit Entering(Parts& parts);

  // Begins the operation's rounds.
  void enter(Operation& operation);

  // Called when all announcements are on the board, and the lines alone do not tell the next step.
  void entries_came(Operation& operation);
  // What this rank says in the round `agree`, and what follows from all ranks' lines of that round.
  Lacking lacking_of(const Operation& operation) const;
  void all_agreed(Operation& operation);
  // Called when the ranks have said whether they have mapped the communicator's staging memory.
  void staging_agreed(Operation& operation, bool everywhere);
  // Begins the schedule that was chosen, at its step `first`.
  void begin_reaching(Operation& operation, std::uint32_t first);

  // Whether ranks may do the operation on devices, as far as the group knows.
  static bool is_worth_offering(const Operation& operation);
  // Called when the data of an operation that was offered in vain is on the host.
  void data_came(Operation& operation);
  // Called when a requested region has come or is known not to come.
  void region_came();
  // Whether the operation waits for memory to be mapped.
  bool is_mapping(const Operation& operation) const;
  // Called when the operation has ended.
  void forget(Operation& operation);

 private:
  void all_announced(Operation& operation);
  void map_announced(Operation& operation);
  transport::RemoteMemory::State prepare(const Operation& operation, int rank, std::uint64_t key) const;
  bool has_mapped(const Operation& operation, int rank) const;
  bool can_read(const Operation& operation, int rank) const;
  bool reaches_by_address(const Operation& operation, int rank) const;
  bool find_buffers(Operation& operation, schedule::Reach reach);
  void take_schedule(Operation& operation, schedule::Reach reach);

  // Buffers on devices (on_devices.cpp)
  static void note_refusal(const Operation& operation, std::size_t rank, std::uint64_t key);
  void devices_announced(Operation& operation);
  void try_refused_again(const Operation& operation) const;
  void take_devices(Operation& operation);
  schedule::Space space_of(const Operation& operation) const;
  void announce_anew(Operation& operation);
  void move_to_host(Operation& operation, Shadow::Then then);

  Parts& parts_;
  control::Job& job_;
  Routes& routes_;
  Outcomes& outcomes_;
  std::vector<Operation*> mapping_;  // entering operations, until the announced memory is mapped
};

// Whether some rank has announced buffers on a device.
bool is_any_on_device(const Operation& operation);
// Finds the place of the call in the communicator's staging memory, if its plan needs one.
void take_staging(Operation& operation);

}  // namespace anello::executor
