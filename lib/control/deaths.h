#pragma once
// Sees the processes of this host that share the arena end, through their process descriptors: no timer, no polling.
// One watch for all ranks of this process that are in the arena. Service thread only.
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
  // The group's watch, started with the first that asks. Ends with the last copy of the pointer.
  static std::shared_ptr<DeathWatch> of(Service& service, const std::shared_ptr<LocalGroup>& group);
  ~DeathWatch();

  // told(process) for each process that ends, also those that have ended already. Kept while owner lives.
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
