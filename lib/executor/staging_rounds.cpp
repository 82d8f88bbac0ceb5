// Agreement: sets up a communicator's staging memory. The first operation that wants it has the board meanwhile.
#include "base/log.h"
#include "control/job.h"
#include "executor/agreement.h"
#include "executor/run.h"

namespace anello::executor {

void Agreement::set_up_staging(Operation& operation) { begin_round(operation, Round::find_staging); }

void Agreement::take_staging(Operation& operation) {
  const std::size_t staged = operation.plan->schedule.staging * operation.element_bytes;
  if (staged == 0) return;
  memory::Staging& staging = operation.group->staging;
  operation.staging = staging.at.data();
  operation.staging_from = staging.take(staged, operation.plan->schedule.staging_comes_back);
}

// Does the steps up to the first barrier, for which the lines stand. Others may still be in the last call, but in none
// before it.
void Agreement::stage_early(Operation& operation) {
  operation.staged_early = true;
  take_plain(operation);
  take_staging(operation);
  // Memory that does not come back lies at another place in each call.
  const bool comes_back = operation.plan->schedule.staging_comes_back;
  if (comes_back && operation.resolved.staging_from != operation.staging_from) resolve_staged_plan(operation);
  if (!comes_back) operation.resolved.steps.clear();
  std::size_t all = SIZE_MAX;
  operation.barrier_step = advance(operation, 0, &all);
}

void Agreement::staging_agreed(Operation& operation, bool everywhere) {
  memory::Staging& staging = operation.group->staging;
  staging.state = everywhere ? memory::Staging::State::ready : memory::Staging::State::failed;
  if (!everywhere) {
    log::info(job_.rank(), "not all ranks have staging memory: their calls send messages instead");
    staging.give_up(operation.group->rank);
  }
  take_schedule(operation, operation.reach);
}

}  // namespace anello::executor
