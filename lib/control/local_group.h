#pragma once
// One process's view of a host's arena: the mapping, the memfd behind it, and the descriptors with which its ranks wake
// each other. There is one per process, so that all of its ranks use one mapping. The service thread makes it; any
// thread may release it.
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

// The size of a ring. 1 MiB between two ranks keeps both processors busy; many ranks share one cache.
constexpr std::size_t ring_bytes_for(int ranks) {
  return ranks <= 4 ? 1024 * 1024 : ranks <= 16 ? 512 * 1024 : 256 * 1024;
}

// For a process with ranks in the arena: becomes readable when the process ends.
struct Death {
  std::uint64_t process = 0;
  UniqueFd descriptor;
};

class LocalGroup {
 public:
  // Makes the memory: sealed, its fixed part backed with pages. wake: eventfds by local index, empty for a missing
  // rank. Throws Error: ANELLO_ERR_RESOURCE if there is too little memory, ANELLO_ERR_SYSTEM if memfds are not allowed.
  static std::shared_ptr<LocalGroup> make(int ranks, std::vector<UniqueFd> wake, std::vector<Death> deaths);
  // Maps the memory that another process made. Throws Error.
  static std::shared_ptr<LocalGroup> map(std::uint64_t nonce, int ranks, std::size_t ring_bytes, UniqueFd memory,
                                         std::vector<UniqueFd> wake, std::vector<Death> deaths);
  // The mapping that another rank of this process has already made; empty: none has.
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
