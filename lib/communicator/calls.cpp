// Passes calls from their struct to the executor, and results back to the caller.
#include "communicator/communicator.h"

#include "base/dtype.h"
#include "base/kind.h"
#include "base/text.h"
#include "communicator/amounts.h"
#include "communicator/call_buffers.h"
#include "communicator/premultiply.h"
#include "communicator/reduction.h"
#include "communicator/shadowing.h"
#include "communicator/varying.h"
#include "schedule/shape.h"

#include <algorithm>
#include <utility>

namespace anello {

using executor::Operation;

void Communicator::prepare(Operation& operation, const anello_call_t& call, recorder::CallRecord& record,
                           executor::StreamLine* line) {
  operation.kind = call.kind;
  operation.dtype = call.kind == ANELLO_BARRIER ? ANELLO_UINT8 : call.dtype;
  operation.op = kind_reduces(call.kind) ? call.op : ANELLO_SUM;
  operation.peer = call.peer;
  operation.tag = call.tag;
  operation.count = call.kind == ANELLO_BARRIER ? 0 : call.count;
  const Reduction reduction = reduction_of(call);
  operation.element_bytes = reduction.element_bytes;
  operation.reducer = reduction.reducer;
  // A timeout that means "none" does not wrap: 70 years.
  constexpr std::int64_t kMostMs = INT64_MAX / 4'000'000;
  operation.timeout_ns = std::min(call.timeout_ms > 0 ? call.timeout_ms : timeout_ms_, kMostMs) * 1'000'000;
  operation.label.set(call.label);
  InPlace place = is_message(call.kind) ? InPlace::no : in_place(call, rank());
  // A scaled input lies elsewhere, and the elements around this rank's part of the caller's buffer stay unchanged.
  if (place == InPlace::own_part && reduction.premultiplies()) place = InPlace::no;
  set_buffers(operation, call, place);
  if (line != nullptr || is_on_device(call)) {
    shadow_buffers(operation, call, rank(), size(), place, line);
    if (operation.shadow != nullptr && reduction.premultiplies()) {
      if (line != nullptr) throw Error(ANELLO_ERR_TYPE, "a premultiplied sum cannot be in a stream yet");
      operation.shadow->move_to_host(operation);
      context_->fetch_now(operation);  // premultiply() reads it
    }
  }
  if (is_message(call.kind)) {
    if (operation.shadow != nullptr) offer_or_shadow(operation);
    return;
  }
  if (reduction.own_function()) operation.custom = reduction.custom;
  if (reduction.premultiplies())
    premultiply(operation, *reduction.custom, place == InPlace::yes, amounts_of(call, rank(), size()));

  schedule::Call asked = planned(call, place, reduction);
  operation.count = asked.count;
  if (operation.shadow != nullptr && !reduction.premultiplies()) asked.space = schedule::Space::devices;
  if (kind_is_varying(call.kind)) asked.varying = varying_of(call, rank(), size(), place != InPlace::no);
  operation.plans = plans(asked);
  operation.resolved.agreement = 0;
  operation.forget_places();
  operation.mappings.clear();
  operation.plan = operation.plans->at(schedule::Reach::none);
  if (operation.announces()) expose(operation, asked);
  if (operation.shadow != nullptr && !reduction.premultiplies()) offer_or_shadow(operation);

  record.kind = call.kind;
  record.dtype = operation.dtype;
  record.op = reduction.op;
  record.root = asked.root;
  record.count = operation.count;
  record.algorithm = recorder::named_algorithm(asked.algorithm);
  record.set_label(operation.label);
  if (kind_is_varying(call.kind) && !kind_has_root(call.kind)) {
    record.root = static_cast<std::int32_t>(counts_digest(call, size()));
  }
}

// The places of this rank's buffers, for a call whose ranks announce them.
void Communicator::expose(Operation& operation, const schedule::Call& call) const {
  const std::size_t element = operation.element_bytes;
  operation.input_inside = schedule::input_in_output(call, rank());
  operation.input_at = operation.input_inside ? schedule::input_offset(call, rank()) * element : 0;
  operation.input_bytes = schedule::input_count(call, size(), rank()) * element;
  operation.output_bytes = schedule::extent(schedule::Buffer::output, call, size(), rank()) * element;
}

Operation* Communicator::start(const anello_call_t& call, int record_kind, std::uint32_t claim) {
  Operation* operation = context_->acquire(*group_);
  recorder::CallRecord record;
  try {
    prepare(*operation, call, record);
    operation->claim = claim;
    if (record_kind >= 0) record.kind = record_kind;
    context_->post(*operation, record);
  } catch (const Error& why_not) {
    context_->release(operation);
    refuse(call, why_not.code(), record_kind);  // the other ranks need not wait for it
    throw;
  } catch (...) {
    context_->release(operation);
    throw;
  }
  return operation;
}

Operation* Communicator::post(const anello_call_t& call, std::uint32_t claim) {
  Operation* operation = start(call, -1, claim);
  context_->leave_to_background();
  return operation;
}

std::optional<Communicator::Probed> Communicator::probe(const anello_call_t& call, bool waits, bool claims) {
  struct Release {
    executor::Context& context;
    Operation* operation;
    ~Release() { context.release(operation); }
  } const held{*context_, context_->acquire(*group_)};
  Operation& operation = *held.operation;
  recorder::CallRecord record;
  prepare(operation, call, record);
  operation.claims = claims;
  if (waits) {
    context_->post(operation, record);
    context_->wait(operation);
    if (operation.error) throw operation.error;
  } else if (!context_->probe_now(operation)) {
    return std::nullopt;
  }
  return Probed{operation.status, operation.claim};
}

Error Communicator::run(const anello_call_t& call, anello_status_t* status, int record_kind, std::int64_t* sequence) {
  Operation* operation = nullptr;
  if (enter(call, record_kind, &operation)) return {};
  if (operation == nullptr) operation = start(call, record_kind);
  return wait_for(operation, status, sequence);
}

Error Communicator::wait_for(Operation* operation, anello_status_t* status, std::int64_t* sequence) {
  context_->wait(*operation);
  Error error = operation->error;
  if (error && sequence != nullptr && !is_message(operation->kind)) *sequence = operation->sequence;
  if (status != nullptr && has_status(operation->kind)) *status = operation->status;
  give_back(operation);
  return error;
}

// Called after its call. The prepared state serves the next call, unless another one came in between.
void Communicator::give_back(Operation* operation) {
  const auto held = context_->lock();
  if (last_.under_way == operation) {
    last_.under_way = nullptr;
    if (!operation->error && !group_->error) {
      executor::OperationPool::renew(*operation);
      last_.operation = operation;
      return;
    }
  }
  context_->operations().give_back(operation);
}

void Communicator::refuse(const anello_call_t& call, anello_result_t result, int record_kind) {
  if (is_message(call.kind)) return;
  Operation* operation = context_->acquire(*group_);
  operation->kind = call.kind;
  recorder::CallRecord record;
  record.kind = record_kind >= 0 ? record_kind : call.kind;
  record.dtype = call.dtype;
  record.op = call.op;
  record.root = call.peer;
  record.count = call.count;
  record.refused = static_cast<std::int16_t>(result);
  record.set_label(Label(call.label));
  context_->post(*operation, record);
  context_->release(operation);
}

}  // namespace anello
