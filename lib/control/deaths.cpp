#include "control/deaths.h"

#include "base/log.h"
#include "control/host.h"

#include <cerrno>

#include <fcntl.h>

namespace anello::control {

std::shared_ptr<DeathWatch> DeathWatch::of(Service& service, const std::shared_ptr<LocalGroup>& group) {
  if (auto known = group->watch.lock()) return known;
  auto watch = std::make_shared<DeathWatch>();
  watch->group_ = group;
  for (const Death& death : group->deaths()) {
    if (!death.descriptor || death.process == this_host().process) continue;
    // A copy, because another thread than the one that waits here may release the group.
    UniqueFd copy(::fcntl(death.descriptor.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy) throw Error(ANELLO_ERR_RESOURCE, system_text("fcntl(F_DUPFD_CLOEXEC)", errno));
    auto descriptor = std::make_shared<Stream>(service.io(), std::move(copy));
    watch->descriptors_.push_back(descriptor);
    watch->watched_.insert(death.process);
    service.spawn("death watch", wait(watch, descriptor, death.process));
  }
  group->watch = watch;
  return watch;
}

DeathWatch::~DeathWatch() {
  for (const auto& descriptor : descriptors_) descriptor->close();
}

void DeathWatch::tell(const std::shared_ptr<void>& owner, std::function<void(std::uint64_t)> told) {
  for (const std::uint64_t process : ended_) told(process);
  listeners_.push_back({owner, std::move(told)});
}

Task<> DeathWatch::wait(std::weak_ptr<DeathWatch> weak, std::shared_ptr<Stream> descriptor, std::uint64_t process) {
  co_await descriptor->readable();
  const std::shared_ptr<DeathWatch> watch = weak.lock();
  if (!watch) co_return;
  watch->ended_.insert(process);
  std::erase_if(watch->listeners_, [](const Listener& listener) { return listener.owner.expired(); });
  const std::vector<Listener> listeners = watch->listeners_;  // told may add or end other watches
  for (const Listener& listener : listeners) {
    if (const auto alive = listener.owner.lock()) listener.told(process);
  }
}

}  // namespace anello::control
