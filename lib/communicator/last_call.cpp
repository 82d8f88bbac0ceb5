// A blocking collective that is like the last one: it reuses the state prepared for that one, with other buffers.
#include "communicator/communicator.h"

#include "base/kind.h"
#include "base/text.h"
#include "communicator/call_buffers.h"
#include "communicator/shadowing.h"
#include "executor/exchange.h"
#include "executor/run.h"

#include <utility>

namespace anello {

using executor::Operation;

bool Communicator::is_like_last(const anello_call_t& call, InPlace place, int record_kind) const {
  const anello_call_t& last = last_.call;
  return call.kind == last.kind && call.count == last.count && call.dtype == last.dtype && call.op == last.op &&
         call.peer == last.peer && call.timeout_ms == last.timeout_ms && record_kind == last_.record_kind &&
         place == last_.in_place && asks_like_last(call) && last_.operation != nullptr;
}

bool Communicator::asks_like_last(const anello_call_t& call) const {
  return call.algorithm == nullptr ? last_.algorithm.empty() : last_.algorithm == call.algorithm;
}

// Stores this call as `last_`.
void Communicator::prepare_last(const anello_call_t& call, InPlace place, int record_kind) {
  if (last_.operation == nullptr) last_.operation = context_->operations().take(*group_);
  Operation* const operation = std::exchange(last_.operation, nullptr);
  try {
    last_ = {nullptr, nullptr, call, {}, {}, place, record_kind, {}, 0};
    if (call.algorithm != nullptr)
      last_.algorithm = schedule::find(executor::operation_collective(call.kind), call.algorithm)->name;
    prepare(*operation, call, last_.record);
  } catch (...) {
    context_->operations().give_back(operation);
    throw;
  }
  if (record_kind >= 0) last_.record.kind = record_kind;
  last_.digest = recorder::digest_of(last_.record);
  last_.operation = operation;
}

// It is inlined into both of its callers, one of which is the shortest path of all.
[[gnu::always_inline]] inline bool Communicator::enter_last(Operation** under_way) {
  using Entered = executor::Context::Entered;
  Operation* const operation = last_.operation;
  Entered done = Entered::not_begun;
  try {
    if (operation->announces()) {
      done = context_->walk_now(*operation, last_.record, last_.digest);
    } else if (operation->plan->is_exchange) {
      done = context_->exchange_now(*operation, last_.record, last_.digest);
    }
    if (done == Entered::not_begun) done = context_->enter_now(*operation, last_.record, last_.digest);
  } catch (...) {
    // The call is half entered, because memory ran out: no thread can continue it, and the other ranks wait.
    last_.operation = nullptr;
    context_->fail(*group_, executor::no_memory(context_->job(), text("what ", kind_name(operation->kind), " needs")),
                   true);
    if (operation->done.load(std::memory_order_relaxed)) context_->operations().give_back(operation);
    throw;
  }
  if (done == Entered::complete) return true;
  *under_way = last_.under_way = std::exchange(last_.operation, nullptr);
  return false;
}

// Runs a blocking collective and reuses the last call's state if it is like it. A collective that needs only the board
// runs from start to end under one hold of the lock. True: it is complete, without error. Otherwise *under_way is the
// operation if it was entered, and null if nothing has happened.
bool Communicator::enter(const anello_call_t& call, int record_kind, Operation** under_way) {
  *under_way = nullptr;
  if (is_message(call.kind) || kind_is_varying(call.kind) || is_custom_op(call.op)) return false;
  const auto held = context_->lock_if_free();
  if (!held || group_->error) return false;
  if (is_on_device(call)) return false;
  const InPlace place = in_place(call, rank());
  if (!is_like_last(call, place, record_kind)) prepare_last(call, place, record_kind);
  Operation& operation = *last_.operation;
  set_buffers(operation, call, place);
  if (call.sendbuf != last_.call.sendbuf || call.recvbuf != last_.call.recvbuf) operation.forget_places();
  last_.call.sendbuf = call.sendbuf;
  last_.call.recvbuf = call.recvbuf;
  if (operation.plan->is_exchange && !operation.announces()) executor::prepare_exchange(*group_, operation);
  if (call.label != nullptr || !operation.label.empty()) {
    operation.label.set(call.label);
    last_.record.set_label(operation.label);
  }
  last_.plain = record_kind < 0 ? PlainCall::of(call) : std::nullopt;
  last_mark_.store(last_.plain ? last_.plain->mark() : 0, std::memory_order_relaxed);
  return enter_last(under_way);
}

executor::Context::Entered Communicator::repeat(const PlainCall& call, Operation** operation) {
  using Entered = executor::Context::Entered;
  if (last_mark_.load(std::memory_order_relaxed) != call.mark()) return Entered::not_begun;
  const auto held = context_->lock_if_free();
  if (!held || group_->error || last_.operation == nullptr || last_.plain != call) return Entered::not_begun;
  return enter_last(operation) ? Entered::complete : Entered::under_way;
}

}  // namespace anello
