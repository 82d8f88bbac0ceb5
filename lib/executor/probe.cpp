// Context: probes. They tell of a message that no receive has taken; a matched one takes it out of the others' sight
// and gives it a number, for the one receive that names it.
#include "base/dtype.h"
#include "executor/context.h"

#include <algorithm>

namespace anello::executor {

void Context::post_probe(Operation& probe) {
  Group& group = *probe.group;
  const auto found = std::find_if(group.unexpected.begin(), group.unexpected.end(), [&](const Unexpected& message) {
    return probe.matches(message.source, message.tag);
  });
  if (found == group.unexpected.end()) {
    group.probes.push(&probe);
    return;
  }
  answer(probe, found);
  finish(probe);
}

void Context::answer(Operation& probe, std::deque<Unexpected>::iterator found) {
  Group& group = *probe.group;
  const std::size_t element = dtype_bytes(long_dtype(found->dtype));
  probe.status = {found->source, found->tag, found->bytes / element};
  probe.dtype = long_dtype(found->dtype);
  if (!probe.claims) return;
  found->claim = group.next_claim++;
  if (found->claim == 0) found->claim = group.next_claim++;  // past the wrap; 0 is none
  probe.claim = found->claim;
  group.claimed.push_back(*found);
  group.unexpected.erase(found);
}

void Context::keep_unexpected(Group& group, const Unexpected& message) {
  group.unexpected.push_back(message);
  for (Operation* probe = group.probes.front(); probe != nullptr;) {
    Operation* const next = OperationFifo::after(probe);
    if (probe->matches(message.source, message.tag)) {
      group.probes.remove(probe);
      answer(*probe, std::prev(group.unexpected.end()));
      finish(*probe);
      if (probe->claims) return;
    }
    probe = next;
  }
}

bool Context::probe_now(Operation& probe) {
  const Lock held = lock();
  Group& group = *probe.group;
  if (probe.peer == ANELLO_RANK_NULL) {
    probe.status = {ANELLO_RANK_NULL, ANELLO_ANY_TAG, 0};
    return true;
  }
  if (!driver_.is_driving()) {
    const kernels::DefaultFloats floats;
    move();
    if (fates_.is_any() || routes_.has_broken()) tick({});
  }
  if (group.error) throw group.error;
  const auto found = std::find_if(group.unexpected.begin(), group.unexpected.end(), [&](const Unexpected& message) {
    return probe.matches(message.source, message.tag);
  });
  if (found == group.unexpected.end()) return false;
  answer(probe, found);
  return true;
}

}  // namespace anello::executor
