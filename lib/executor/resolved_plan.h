#pragma once
// All steps of a call's plan, resolved once for a call that is repeated with its buffers.
#include "executor/resolved_step.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

struct Operation;

struct ResolvedPlan {
  std::vector<ResolvedStep> steps;  // of the whole plan; empty if it moves too much, or a step depends on more
  // Valid while Group::agreements has this value and the ranks repeat their announcements. 0: never.
  std::uint64_t agreement = 0;
  std::size_t staging_from = SIZE_MAX;  // the Operation::staging_from of the steps

  bool empty() const { return steps.empty(); }
  // Called when the buffers are, or may be, other ones.
  void forget_addresses() {
    staging_from = SIZE_MAX;
    steps.clear();
  }
  // Called when ranks announce other buffers, or none.
  void forget() {
    agreement = 0;
    forget_addresses();
  }
};

// Resolves the plan of an operation that knows its buffers and its peers' buffers.
void resolve_plan(Operation& operation);
// Likewise, for the place where the call has its staging memory now.
void resolve_staged_plan(Operation& operation);
// Runs steps from `first` on, none of which is long, up to a barrier, to the end, or to a step that is forbidden
// because some rank has ended the operation with an error. Returns the next step.
std::uint32_t run_resolved(Operation& operation, std::uint32_t first);

}  // namespace anello::executor
