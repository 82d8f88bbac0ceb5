#pragma once
// The hooks of a tracing tool, and the calls that are reported to them. If none are set, a call costs one extra load.
// Hooks run outside all locks, on the thread that makes the call: `before` gets the next sequence number, and `after`
// runs just before the result is returned. A call keeps the hooks that got its beginning.
#include "api/last_error.h"
#include "base/error.h"
#include "base/label.h"

#include <anello/anello.h>

#include <atomic>
#include <memory>
#include <string>

namespace anello {
class Communicator;
}

namespace anello::api {

class HookSet;

// A call that was reported to `before`.
class ReportedCall {
 public:
  // Calls `before`. Throws Error inside a hook for a call on the same communicator.
  ReportedCall(std::shared_ptr<HookSet> hooks, anello_comm_t comm, std::shared_ptr<Communicator> communicator,
               const anello_call_t& call, bool blocking);
  // Calls `after`.
  void completed(const Error& error, const anello_status_t& status);

 private:
  void tell(void (*hook)(void*, const anello_hook_info_t*));
  std::shared_ptr<HookSet> hooks_;
  std::shared_ptr<Communicator> communicator_;
  Label label_;
  std::string error_;
  anello_hook_info_t info_{};
};

extern std::atomic<bool> hooks_are_set;

// Null: no hook gets the call.
std::unique_ptr<ReportedCall> report(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                                     const anello_call_t& call, bool blocking);

// Runs body, which makes the call and returns its Error, with `before` and `after` around it. status: where body stores
// the status.
template <class Body>
Error with_hooks(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator, const anello_call_t& call,
                 const anello_status_t& status, Body&& body) {
  const auto reported = report(comm, communicator, call, true);
  Error error;
  try {
    error = body();
  } catch (...) {
    if (reported) reported->completed(caught(), status);
    throw;
  }
  if (reported) reported->completed(error, status);
  return error;
}

// A blocking call from start to end.
[[gnu::cold]] Error run_with_hooks(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                                   const anello_call_t& call, anello_status_t* status, std::int64_t* sequence);

}  // namespace anello::api
