#include "api/hooks.h"

#include "api/arguments.h"
#include "api/last_error.h"
#include "api/tables.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "base/log.h"
#include "base/text.h"
#include "communicator/amounts.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace anello::api {

class HookSet {
 public:
  explicit HookSet(const anello_hooks_t& hooks) : hooks_(hooks) {}
  ~HookSet() {
    if (hooks_.released != nullptr) hooks_.released(hooks_.context);
  }
  HookSet(const HookSet&) = delete;
  HookSet& operator=(const HookSet&) = delete;
  const anello_hooks_t& hooks() const { return hooks_; }

 private:
  const anello_hooks_t hooks_;
};

namespace {

struct Current {
  std::mutex mutex;
  std::shared_ptr<HookSet> hooks;
};
Current& current() {
  static Current* const instance = new Current;  // leaked: calls may come from static destructors
  return *instance;
}

std::atomic<std::uint64_t> calls_reported{0};
// The communicator of the call that this thread is reporting to a hook.
thread_local const Communicator* inside = nullptr;

}  // namespace

constinit std::atomic<bool> hooks_are_set{false};

std::unique_ptr<ReportedCall> report(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                                     const anello_call_t& call, bool blocking) {
  if (!hooks_are_set.load(std::memory_order_relaxed)) return nullptr;
  if (inside == communicator.get()) {
    throw Error(ANELLO_ERR_STATE, text(named(call), "called in a hook on the communicator of the reported call"));
  }
  if (inside != nullptr) return nullptr;
  std::shared_ptr<HookSet> hooks;
  {
    const std::lock_guard held(current().mutex);
    hooks = current().hooks;
  }
  if (!hooks) return nullptr;
  return std::make_unique<ReportedCall>(std::move(hooks), comm, communicator, call, blocking);
}

Error run_with_hooks(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator, const anello_call_t& call,
                     anello_status_t* status, std::int64_t* sequence) {
  anello_status_t came{-1, -1, 0};
  Error error =
      with_hooks(comm, communicator, call, came, [&] { return communicator->run(call, &came, -1, sequence); });
  if (status != nullptr && has_status(call.kind)) *status = came;
  return error;
}

ReportedCall::ReportedCall(std::shared_ptr<HookSet> hooks, anello_comm_t comm,
                           std::shared_ptr<Communicator> communicator, const anello_call_t& call, bool blocking)
    : hooks_(std::move(hooks)), communicator_(std::move(communicator)), label_(call.label) {
  const Communicator::Outlook outlook = communicator_->outlook(call);
  const Amounts amounts = amounts_of(call, communicator_->rank(), communicator_->size());
  const bool to_one = is_message(call.kind) && call.peer >= 0;
  info_.size = sizeof info_;
  info_.phase = ANELLO_POSTED;
  info_.kind = call.kind;
  info_.name = kind_name(call.kind);
  info_.call = calls_reported.fetch_add(1, std::memory_order_relaxed) + 1;
  info_.comm = comm;
  info_.comm_id = communicator_->id();
  info_.rank = communicator_->rank();
  info_.ranks = communicator_->size();
  info_.sequence = outlook.sequence;
  info_.dtype = call.dtype;
  info_.op = call.op;
  info_.count = call.count;
  info_.bytes = std::max(amounts.in, amounts.out) * dtype_bytes(call.dtype);
  info_.peer = call.peer;
  info_.tag = call.tag;
  info_.blocking = blocking ? 1 : 0;
  info_.algorithm = outlook.algorithm;
  info_.transport = to_one ? communicator_->transport_to(call.peer) : communicator_->transports().c_str();
  info_.posted_ns = now_ns();
  tell(hooks_->hooks().before);
}

void ReportedCall::completed(const Error& error, const anello_status_t& status) {
  info_.phase = ANELLO_COMPLETED;
  info_.completed_ns = now_ns();
  info_.result = error.code();
  error_ = error.text();
  if (has_status(info_.kind) && !error) {
    info_.peer = status.source;
    info_.tag = status.tag;
    info_.count = status.count;
    if (info_.kind == ANELLO_RECV) info_.bytes = status.count * dtype_bytes(info_.dtype);
    if (status.source >= 0) info_.transport = communicator_->transport_to(status.source);
  }
  tell(hooks_->hooks().after);
}

void ReportedCall::tell(void (*hook)(void*, const anello_hook_info_t*)) {
  if (hook == nullptr) return;
  info_.label = label_.c_str();
  info_.error = error_.c_str();
  const Communicator* const outer = std::exchange(inside, communicator_.get());
  try {
    hook(hooks_->hooks().context, &info_);
  } catch (...) {
    log::warn(communicator_->context().rank(), "a hook threw an exception, which is dropped");
  }
  inside = outer;
}

}  // namespace anello::api

using namespace anello;
using namespace anello::api;

extern "C" {

anello_result_t anello_set_hooks(const anello_hooks_t* hooks) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    anello_hooks_t whole = ANELLO_HOOKS_INITIALIZER;
    if (hooks != nullptr) {
      if (hooks->size != sizeof whole) {
        throw Error(ANELLO_ERR_ARGUMENT,
                    text("anello_set_hooks: anello_hooks_t.size is ", hooks->size, ", this library knows ",
                         sizeof whole, ": start from ANELLO_HOOKS_INITIALIZER"));
      }
      whole = *hooks;
    }
    auto made = hooks == nullptr ? nullptr : std::make_shared<HookSet>(whole);
    const bool any = made != nullptr;
    std::shared_ptr<HookSet> earlier;  // the last reference may go, and released be called, outside the lock
    {
      const std::lock_guard held(current().mutex);
      earlier = std::exchange(current().hooks, std::move(made));
      hooks_are_set.store(any, std::memory_order_relaxed);
    }
    return ANELLO_OK;
  });
}

}  // extern "C"
