#pragma once
// The hooks of a tracing tool, and the calls that they are told of. Where none are set, a call costs one load more.
// Hooks run outside all locks, on the thread that makes the call: `before` with the sequence number that comes next,
// `after` just before the result is returned. A call keeps the hooks that heard its beginning.
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

// A call that `before` was told of.
class ReportedCall {
 public:
  // Tells `before`. Throws Error inside a hook for a call on the same communicator.
  ReportedCall(std::shared_ptr<HookSet> hooks, anello_comm_t comm, std::shared_ptr<Communicator> communicator,
               const anello_call_t& call, bool blocking);
  // Tells `after`.
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

// Null: nobody wants to hear of the call.
std::unique_ptr<ReportedCall> report(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                                     const anello_call_t& call, bool blocking);

// Makes the call, which body does and of which it returns the Error, with `before` and `after` around it. status: where
// body puts it.
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
