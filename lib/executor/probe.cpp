// Context: probes. They tell of a message that no receive has taken (messaging/matching.h).
#include "base/dtype.h"
#include "executor/context.h"

namespace anello::executor {

void Context::post_probe(Operation& probe) {
  Group& group = *probe.group;
  if (!found_by(probe)) return group.messages.post_probe(&probe);
  finish(probe);
}

// Whether there is a message for it, of which it then tells.
bool Context::found_by(Operation& probe) {
  Group& group = *probe.group;
  const Unexpected* const found = group.messages.find(probe.pattern());
  if (found == nullptr) return false;
  answer(probe, probe.claims ? group.messages.claim(probe.pattern()) : *found);
  return true;
}

void Context::answer(Operation& probe, const Unexpected& message) {
  const std::size_t element = dtype_bytes(long_dtype(message.dtype));
  probe.status = {message.source, message.tag, message.bytes / element};
  probe.dtype = long_dtype(message.dtype);
  probe.claim = message.claim;
}

void Context::keep_unexpected(Group& group, const Unexpected& message) {
  group.messages.keep(message, [this](Operation& probe, const Unexpected& found) {
    answer(probe, found);
    finish(probe);
  });
}

bool Context::probe_now(Operation& probe) {
  const Lock held = lock();
  if (probe.peer == ANELLO_RANK_NULL) {
    probe.status = {ANELLO_RANK_NULL, ANELLO_ANY_TAG, 0};
    return true;
  }
  if (!driver_.is_driving()) {
    const kernels::DefaultFloats floats;
    move();
    if (fates_.is_any() || routes_.has_broken()) tick({});
  }
  if (probe.group->error) throw probe.group->error;
  return found_by(probe);
}

}  // namespace anello::executor
