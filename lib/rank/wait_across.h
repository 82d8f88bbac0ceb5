#pragma once
// One thread waits for operations of several ranks of this process. It drives each rank in turn, then leaves them to
// the service thread and sleeps on an eventfd that every ending operation writes.
#include "rank/context.h"

#include <functional>
#include <vector>

namespace anello::executor {

struct Awaited {
  Context* context;
  Operation* operation;
};

// Waits until one of them is done, or `or_else` (may be empty; asked about every millisecond) returns true.
void wait_across(const std::vector<Awaited>& awaited, const std::function<bool()>& or_else);

}  // namespace anello::executor
