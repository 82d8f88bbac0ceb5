// Messages: probes, which describe a message that no receive has taken (messaging/matching.h).
#include "base/dtype.h"
#include "executor/messages.h"
#include "executor/outcomes.h"

namespace anello::executor {

void Messages::post_probe(Operation& probe) {
  Group& group = *probe.group;
  if (!found_by(probe)) return group.messages.post_probe(&probe);
  outcomes_.finish(probe);
}

bool Messages::found_by(Operation& probe) {
  Group& group = *probe.group;
  const Unexpected* const found = group.messages.find(probe.pattern());
  if (found == nullptr) return false;
  answer(probe, probe.claims ? group.messages.claim(probe.pattern()) : *found);
  return true;
}

void Messages::answer(Operation& probe, const Unexpected& message) {
  const std::size_t element = dtype_bytes(long_dtype(message.dtype));
  probe.status = {message.source, message.tag, message.bytes / element};
  probe.dtype = long_dtype(message.dtype);
  probe.claim = message.claim;
}

void Messages::keep_unexpected(Group& group, const Unexpected& message) {
  group.messages.keep(message, [this](Operation& probe, const Unexpected& found) {
    answer(probe, found);
    outcomes_.finish(probe);
  });
}

}  // namespace anello::executor
