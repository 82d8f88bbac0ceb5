#pragma once
// Waiting for operations of several ranks of this process by one thread.
// It drives each rank in turn, then leaves them to the service thread and sleeps on an eventfd that every ending
// operation writes.
#include "rank/context.h"

#include <functional>
#include <vector>

namespace anello::executor {

struct Awaited {
  Context* context;
  Operation* operation;
};

// Until one of them is done, or `or_else` (may be empty; asked about every millisecond) says so.
void wait_across(const std::vector<Awaited>& awaited, const std::function<bool()>& or_else);

}  // namespace anello::executor
