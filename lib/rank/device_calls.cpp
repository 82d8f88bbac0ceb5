// Context: calls that wait for a device's data, or for their stream, before they begin.
#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "rank/context.h"

namespace anello::executor {

// Enqueues the copies of what the operation reads. False: it has ended, as its communicator has.
bool Context::fetch(Operation& operation) {
  try {
    shadows_.fetch(operation);
    return true;
  } catch (const Error& of_device) {
    const Error why_not = job_->own_error(of_device);
    fail(*operation.group, why_not, true);
    finish(operation, why_not);
    return false;
  }
}

void Context::fetch_now(Operation& operation) {
  Group& group = *operation.group;
  executor::Shadow& shadow = *operation.shadow;
  try {
    {
      const Lock held = lock();
      shadows_.fetch_early(operation);
    }
    const Deadline limit = Deadline::in_ms(operation.timeout_ns / 1'000'000);
    for (unsigned look = 1;; ++look) {
      {
        const Lock held = lock();
        if (shadows_.fetched(operation)) return;
        if (group.error) throw group.error;
        if (look % 256 == 0) {
          if (const Error fault = shadows_.fault_of(operation)) throw job_->own_error(fault);
          if (limit.passed())
            throw Error(ANELLO_ERR_TIMEOUT,
                        text(job_->describe(rank_), ": device ", shadow.device, " has not copied ",
                             shadow.reads.front().bytes, " bytes for ", operation.timeout_ns / 1'000'000, " ms"));
        }
      }
      const timespec nap{0, 20'000};
      look < 1000 ? sched_yield() : nanosleep(&nap, nullptr);
    }
  } catch (const Error& why_not) {
    shadow.own.retire(true);
    abort(group, why_not);
    throw;
  }
}

// As post() does, for a call that was prepared once.
void Context::may_enter(Operation& operation, recorder::CallRecord& record) {
  ++activity_.unfinished;
  if (!is_message(operation.kind)) enter(operation, record, recorder::digest_of(record));
  with_memory(*operation.group, [&] {
    if (!is_message(operation.kind)) {
      queue(operation);
    } else if (shadows_.holds_up(operation)) {
      operation.state = Operation::State::queued;
    } else {
      messages_.post(operation);
    }
    push_routes(operation);
  });
}

void Context::may_start(Operation& operation) {
  Group& group = *operation.group;
  with_memory(group, [&] {
    is_message(operation.kind) ? messages_.post(operation) : activate(group);
    push_routes(operation);
  });
}

}  // namespace anello::executor
