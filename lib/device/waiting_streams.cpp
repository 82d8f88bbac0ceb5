#include "device/waiting_streams.h"

#include "device/handover.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <shared_mutex>

namespace anello::device {
namespace {

// Never destroyed: when static objects are, threads may still be here.
struct All {
  std::shared_mutex gate;  // shared: to enqueue
  std::mutex mutex;
  std::set<const Handover*> handovers;
};
All& all() {
  static All& only = *new All;
  return only;
}

}  // namespace

void WaitingStreams::add(const Handover& handover) {
  const std::lock_guard lock(all().mutex);
  all().handovers.insert(&handover);
}

void WaitingStreams::remove(const Handover& handover) {
  const std::lock_guard lock(all().mutex);
  all().handovers.erase(&handover);
}

bool WaitingStreams::are_any() {
  const std::lock_guard lock(all().mutex);
  return !all().handovers.empty();
}

WaitingStreams::Enqueuing::Enqueuing() { all().gate.lock_shared(); }

WaitingStreams::Enqueuing::~Enqueuing() { all().gate.unlock_shared(); }

bool WaitingStreams::do_if_none(const std::function<void()>& what) {
  const std::unique_lock none_enqueues(all().gate, std::try_to_lock);
  if (!none_enqueues) return false;
  {
    const std::lock_guard lock(all().mutex);
    const auto waits = [](const Handover* each) { return each->is_of_graph() || !each->has_passed(); };
    if (std::any_of(all().handovers.begin(), all().handovers.end(), waits)) return false;
  }
  what();
  return true;
}

bool WaitingStreams::do_before_any(const std::function<void()>& what) {
  {
    const std::lock_guard none_is_added(all().mutex);
    if (all().handovers.empty()) {
      what();
      return true;
    }
  }
  return do_if_none(what);
}

}  // namespace anello::device
