#pragma once
// The memory that ranks of a host share, for threads of an explored program.
#include "memory/arena.h"
#include "memory/sleeper.h"
#include "weak_memory/explorer.h"

#include <functional>
#include <string>
#include <vector>

namespace anello::weak_memory {

class ExploredArena {
 public:
  ExploredArena(int ranks, std::size_t ring_bytes);
  ~ExploredArena();
  ExploredArena(const ExploredArena&) = delete;
  ExploredArena& operator=(const ExploredArena&) = delete;

  // agreed: all ranks make others' stores visible before they sleep (store_barrier.h), so that publishers need not.
  memory::Arena of(int rank, bool agreed) const;
  void share_with(Explorer* explorer) const { explorer->share(base_, layout_.bytes()); }
  // The name of the field at an address in any such arena of two or more ranks.
  const char* field(std::uintptr_t at) const;
  // Waits as the driver does (lib/progress/driver.cpp): is_there looks for the last time.
  static void sleep(const memory::Arena& arena, memory::Sleeper* sleeper, const std::function<bool()>& is_there);

 private:
  memory::ArenaLayout layout_;
  std::byte* base_;
  std::vector<int> bells_;
};

// Explores programs with their orders as written: they must be right. Then once more for each order stronger than
// relaxed, with that one relaxed, until a program fails.
class OrderCheck {
 public:
  using Explore = std::function<Outcome(Explorer*)>;
  void add(std::string name, Explore explore) { programs_.push_back({std::move(name), std::move(explore)}); }
  // Does not try the order at that place, in the words of in_words.
  void leave_out(std::vector<std::string> places) { left_out_ = std::move(places); }
  struct Found {
    std::string failure;  // of the code as written
    std::vector<std::string> needed, not_needed;
    std::uint64_t executions = 0;
  };
  Found run() const;

 private:
  struct Named {
    std::string name;
    Explore explore;
  };
  std::vector<Named> programs_;
  std::vector<std::string> left_out_;
};

}  // namespace anello::weak_memory
