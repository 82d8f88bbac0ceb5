#pragma once
// Detects the end of the processes of this host that share the arena, through their process descriptors, without timers
// or polling. All ranks of this process in the arena share one watch. Service thread only.
#include "control/local_group.h"
#include "control/stream.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace anello::control {

class DeathWatch {
 public:
  // The group's watch. The first call starts it, and it ends with the last copy of the pointer.
  static std::shared_ptr<DeathWatch> of(Service& service, const std::shared_ptr<LocalGroup>& group);
  ~DeathWatch();

  // Calls told(process) for each process that ends, also for those that have already ended. Kept while owner lives.
  void tell(const std::shared_ptr<void>& owner, std::function<void(std::uint64_t process)> told);
  bool watches(std::uint64_t process) const { return watched_.contains(process); }

 private:
  struct Listener {
    std::weak_ptr<void> owner;
    std::function<void(std::uint64_t)> told;
  };
  static Task<> wait(std::weak_ptr<DeathWatch> watch, std::shared_ptr<Stream> descriptor, std::uint64_t process);

  std::shared_ptr<LocalGroup> group_;
  std::vector<std::shared_ptr<Stream>> descriptors_;
  std::set<std::uint64_t> watched_;
  std::set<std::uint64_t> ended_;
  std::vector<Listener> listeners_;
};

}  // namespace anello::control
