#pragma once
// The process's communicators and requests by handle.
#include "api/handle_table.h"
#include "api/last_error.h"
#include "api/posted.h"
#include "base/unique_fd.h"
#include "communicator/communicator.h"

#include <anello/anello.h>

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace anello::api {

// The call that a persistent request repeats at every start.
struct Persistent {
  anello_call_t call;
  std::vector<std::size_t> parts[4];  // the arrays that call's counts and displacements point to
  std::string algorithm, label;       // and its strings
  std::optional<anello_call_t> send;  // of a sendrecv, whose receive is `call`
  Work work;                          // none: not started, or complete
};

class Making;

struct Pending {
  Work once;  // for a request that is not persistent; none if there is only `making`
  // Keeps the operation's owner alive, also after anello_comm_destroy.
  std::shared_ptr<Communicator> communicator;
  anello_comm_t comm = ANELLO_COMM_NULL;
  std::shared_ptr<Persistent> persistent = nullptr;
  std::shared_ptr<Making> making = nullptr;

  Work& work() { return persistent ? persistent->work : once; }
  // For a request that a separate thread serves, without an operation.
  Making* alone() { return once.awaited() == nullptr ? making.get() : nullptr; }
};

using Communicators = HandleTable<std::shared_ptr<Communicator>, Counting::of_owner>;
using Requests = HandleTable<Pending, Counting::of_all>;

Communicators& communicators();
Requests& requests();

inline std::uintptr_t number(anello_comm_t comm) { return reinterpret_cast<std::uintptr_t>(comm); }
inline std::uintptr_t number(anello_request_t request) { return reinterpret_cast<std::uintptr_t>(request); }

// Posts a checked call, for a request.
inline Posted post_call(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                        const anello_call_t& call, std::uint32_t claim = 0) {
  auto reported = report(comm, communicator, call, false);
  try {
    return Posted(communicator->post(call, claim), std::move(reported));
  } catch (...) {
    if (reported) reported->completed(caught(), {-1, -1, 0});
    throw;
  }
}

inline anello_request_t request_of(Pending pending) {
  Communicator* const communicator = pending.communicator.get();  // also kept by the caller
  const bool under_way = pending.work().awaited() != nullptr;
  try {
    return reinterpret_cast<anello_request_t>(requests().add(std::move(pending)));
  } catch (const std::bad_alloc&) {
    // No thread could wait for the end of the operation on the caller's buffers.
    if (under_way && communicator != nullptr) communicator->abort("no memory for a request");
    throw;
  }
}
inline anello_request_t request_of(Posted call, const std::shared_ptr<Communicator>& communicator, anello_comm_t comm) {
  return request_of({{{}, std::move(call)}, communicator, comm});
}

// Makes a checked call from start to end.
inline anello_result_t run_call(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                                const anello_call_t& call, anello_status_t* status) {
  std::int64_t sequence = -1;
  const Error error = hooks_are_set.load(std::memory_order_relaxed)
                          ? run_with_hooks(comm, communicator, call, status, &sequence)
                          : communicator->run(call, status, -1, &sequence);
  return error ? failed(comm, error, {call.kind, sequence, Label(call.label)}) : ANELLO_OK;
}

// Whether refuse_here would throw.
inline bool refuses_here() { return executor::inside_user_function() || in_forked_child(); }
// Throws in a forked child, and in the caller's own function while it combines for Anello.
inline void refuse_here() {
  if (executor::inside_user_function()) {
    throw Error(ANELLO_ERR_STATE,
                "a function that combines operands may not call Anello: the call that it works for holds the rank");
  }
  if (in_forked_child()) {
    throw Error(ANELLO_ERR_FORKED, "this process was forked from one that uses Anello; only the parent may go on");
  }
}

// Throws for a call that consists of collectives (recorder/ledger.h has its kind); the call still takes its place in
// their order.
[[noreturn]] inline void refuse_collective(Communicator& communicator, int record_kind, const std::string& why) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLGATHER;
  communicator.refuse(call, ANELLO_ERR_ARGUMENT, record_kind);
  throw Error(ANELLO_ERR_ARGUMENT, why);
}

// Runs body(communicator) and keeps the communicator alive meanwhile, or fails with the reason.
template <class Body>
anello_result_t with(anello_comm_t comm, Body&& body) noexcept {
  return guard(comm, [&] {
    refuse_here();
    const Communicators::Use use(communicators(), number(comm));
    if (!use) {
      throw comm == ANELLO_COMM_NULL ? Error(ANELLO_ERR_ARGUMENT, "the communicator is ANELLO_COMM_NULL")
                                     : Error(ANELLO_ERR_STATE, "the communicator was destroyed or never existed");
    }
    return body(*use);
  });
}

}  // namespace anello::api
