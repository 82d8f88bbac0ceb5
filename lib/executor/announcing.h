#pragma once
// What the lines say with which ranks enter a call over peers' memory (announcing.cpp).
#include "executor/group.h"

namespace anello::executor {

// Whether a rank's line, in the place of an announcement, may be its payload, and so all may be the whole call.
bool may_publish_payload(const Operation& operation);

// How many ranks' lines are of which kind, once all have come.
struct Entries {
  int payloads = 0;
  int staged = 0;
  int sends = 0;
  bool for_speed = false;  // some rank says that reading is slow
  int wrong = -1;          // a rank whose line is of a kind that this call cannot have
};
Entries entries_of(const Operation& operation);

}  // namespace anello::executor
