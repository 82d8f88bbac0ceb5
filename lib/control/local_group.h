#pragma once
// The arena of one host as one process has it: the mapping, the memfd behind it, and what its ranks wake each other
// with. One per process however many of its ranks are in it, so that all of them use one mapping. Made on the service
// thread; may be let go on any.
#include "base/unique_fd.h"
#include "memory/arena.h"

#include <cstdint>
#include <bitset>
#include <memory>
#include <utility>
#include <vector>

namespace anello::control {

class Service;
class DeathWatch;

// Of a ring. Both processors stay busy with 1 MiB between two ranks; many ranks share the same cache.
constexpr std::size_t ring_bytes_for(int ranks) {
  return ranks <= 4 ? 1024 * 1024 : ranks <= 16 ? 512 * 1024 : 256 * 1024;
}

// Of a process with ranks in the arena: becomes readable when it ends.
struct Death {
  std::uint64_t process = 0;
  UniqueFd descriptor;
};

class LocalGroup {
 public:
  // Makes the memory: sealed, its fixed part backed with pages. wake: eventfds by local index, empty where a rank is
  // missing. Throws Error: ANELLO_ERR_RESOURCE where memory is lacking, ANELLO_ERR_SYSTEM where memfds are not allowed.
  static std::shared_ptr<LocalGroup> make(int ranks, std::vector<UniqueFd> wake, std::vector<Death> deaths);
  // Maps what another process made. Throws Error.
  static std::shared_ptr<LocalGroup> map(std::uint64_t nonce, int ranks, std::size_t ring_bytes, UniqueFd memory,
                                         std::vector<UniqueFd> wake, std::vector<Death> deaths);
  // What another rank of this process has mapped already; empty: none has.
  static std::shared_ptr<LocalGroup> find(std::uint64_t nonce);
  ~LocalGroup();
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  std::uint64_t nonce() const { return nonce_; }
  int memory() const { return memory_.get(); }
  const memory::ArenaLayout& layout() const { return layout_; }
  const std::vector<int>& wake() const { return wake_numbers_; }
  const std::vector<Death>& deaths() const { return deaths_; }
  memory::Arena arena(int index) const {
    return {base_, layout_, index, memory_.get(), wake_numbers_.data(), &threads_};
  }

  // Service thread only.
  std::weak_ptr<DeathWatch> watch;
  std::bitset<memory::kMaxLocalRanks> here;  // local ranks that are threads of this process, once they have their seats

 private:
  LocalGroup() = default;
  void attach();
  void enlist(const std::shared_ptr<LocalGroup>& self);

  std::uint64_t nonce_ = 0;
  memory::ArenaLayout layout_;
  UniqueFd memory_;
  std::vector<UniqueFd> wake_;
  std::vector<int> wake_numbers_;
  std::vector<Death> deaths_;
  std::byte* base_ = nullptr;
  mutable memory::ArenaThreads threads_;
};

}  // namespace anello::control
