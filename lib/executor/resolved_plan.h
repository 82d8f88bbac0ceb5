#pragma once
// All steps of a call's plan, resolved once for a call that comes again with the same buffers.
#include "executor/resolved_step.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

struct Operation;

struct ResolvedPlan {
  std::vector<ResolvedStep> steps;  // of the whole plan; none where it moves too much, or a step depends on more
  // For what is announced as of then (Group::agreements): until then, whoever announces the same is there. 0: never.
  std::uint64_t agreement = 0;
  std::size_t staging_from = SIZE_MAX;  // Operation::staging_from of those

  bool empty() const { return steps.empty(); }
  // The buffers are, or may be, other ones.
  void forget_addresses() {
    staging_from = SIZE_MAX;
    steps.clear();
  }
  // Ranks announce others, or none.
  void forget() {
    agreement = 0;
    forget_addresses();
  }
};

// Of an operation whose buffers are known, and those of its peers.
void resolve_plan(Operation& operation);
// The same for where the call has its staging memory now.
void resolve_staged_plan(Operation& operation);
// Its steps from one on, none of which is long, up to a barrier or the end, or to one that must not be done, since some
// rank has ended the operation with an error. Which one is next.
std::uint32_t run_resolved(Operation& operation, std::uint32_t first);

}  // namespace anello::executor
