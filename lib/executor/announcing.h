#pragma once
// What the first lines of a call over peers' memory say, each rank's as it is there (announcing.cpp).
#include "executor/group.h"

namespace anello::executor {

// Whether a rank's line, in the place of an announcement, may be its payload: every rank has one, and none is as short
// as an announcement.
bool may_publish_payload(const Operation& operation);
// How many ranks have published theirs.
int published_payloads(const Operation& operation);
// How many ranks' lines say that they have staged their first round.
int staged_early(const Operation& operation);
// Whether some rank says that the call goes by messages.
bool sends_at_once(const Operation& operation);

}  // namespace anello::executor
