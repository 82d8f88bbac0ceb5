// Turns a call into the plans that a rank may follow for it, according to the topology and the caller's wishes.
#include "communicator/communicator.h"

#include "base/kind.h"
#include "base/log.h"
#include "base/text.h"
#include "communicator/amounts.h"
#include "communicator/reduction.h"
#include "communicator/varying.h"
#include "executor/run.h"

namespace anello {

std::shared_ptr<const executor::Plans> Communicator::plans(const schedule::Call& asked) {
  // Counts rarely repeat, so such a plan is made for its call and not cached.
  const bool kept = asked.varying == nullptr;
  std::unique_lock held(plans_mutex_, std::defer_lock);
  if (kept) held.lock();
  if (auto known = kept ? plans_.find(asked) : nullptr) return known;
  auto made = std::make_shared<executor::Plans>();
  schedule::Call call = asked;
  call.space = schedule::Space::host;
  const schedule::Choice plain = schedule::choose(call, topology_, wish_);
  const auto make_plan =
      [&](const schedule::Call& made_for, const schedule::Topology& topology, const schedule::Choice& choice) {
    return executor::Plan::of(choice.algorithm->make(made_for, topology, rank(), choice.chunk));
  };
  bool announces = schedule::profits_from_reach(call, topology_, wish_);
  for (const schedule::Reach reach : {schedule::Reach::none, schedule::Reach::read, schedule::Reach::store}) {
    if (reach != schedule::Reach::none && !announces) continue;
    schedule::Call reaching = call;
    reaching.reach = reach;
    const schedule::Decision decision = schedule::decide(reaching, topology_, wish_);
    const schedule::Choice& choice = decision.choice;
    // The last one counts: where ranks reach the most, every rule may hold.
    made->by_library = decision.by_library();
    if (reach != schedule::Reach::none && choice == plain) {
      made->add(reach, made->at(schedule::Reach::none));
      continue;
    }
    auto plan = make_plan(reaching, topology_, choice);
    announces =
        announces || plan->has_barrier;  // a call with barriers uses rounds on the board, as a call that announces does
    if (plan->schedule.staging > 0 && made->unstaged == nullptr) {
      schedule::Topology without = topology_;
      without.staging_bytes = 0;
      made->unstaged = make_plan(call, without, schedule::choose(call, without, wish_));
    }
    log::debug(context_->rank(), schedule::name(call.collective), "(count ", call.count, "): ", choice.algorithm->name,
               reach == schedule::Reach::none ? "" : " where ranks reach each other's buffers (",
               reach == schedule::Reach::none ? "" : schedule::name(reach), reach == schedule::Reach::none ? "" : ")",
               ", chunks of ", choice.chunk * call.element_bytes, " bytes, ", plan->schedule.steps.size(), " steps");
    made->add(reach, std::move(plan));
  }
  // An all-reduce stores its results to all ranks' buffers: no line returns to its owner by itself.
  const bool is_concerned = made->by_library && call.collective != schedule::Collective::allreduce;
  made->may_be_staged =
      is_concerned && (made->may_stage_at_once() || made->may_exchange_at_once() || made->may_send_at_once());
  if (asked.space != schedule::Space::host && announces) {
    for (const schedule::Space space : {schedule::Space::one_device, schedule::Space::devices}) {
      schedule::Call in_place = asked;
      in_place.space = space;
      in_place.reach = schedule::Reach::store;
      const schedule::Choice choice = schedule::choose(in_place, topology_, wish_);
      if (choice.algorithm != nullptr) made->add(space, make_plan(in_place, topology_, choice));
    }
  }
  if (kept) plans_.keep(asked, made);
  return made;
}

schedule::Call Communicator::planned(const anello_call_t& call, InPlace place, const Reduction& reduction) const {
  const bool reduces = kind_reduces(call.kind);
  schedule::Call planned;
  planned.collective = executor::operation_collective(call.kind);
  planned.count = kind_is_varying(call.kind)    ? counts_total(call, size())
                  : call.kind == ANELLO_BARRIER ? 0
                                                : call.count;
  planned.element_bytes = reduction.element_bytes;
  planned.root = kind_has_root(call.kind) ? call.peer : 0;
  planned.invariant = reduces && (context_->job().shared().invariant || reduction.in_order());
  // For a single rank, the input is the result, also for AVG, whose division would change NaNs.
  planned.finish = reduces && reduction.reducer->finishes && size() > 1;
  planned.accumulate = reduces && reduction.reducer->accumulates;
  // A scaled input lies at the place of the result.
  planned.in_place = reduction.premultiplies() ? amounts_of(call, rank(), size()).out > 0 : place != InPlace::no;
  planned.own_part = place == InPlace::own_part && !reduction.premultiplies();
  if (call.algorithm != nullptr) {
    if (const auto* row = schedule::find(planned.collective, call.algorithm)) planned.algorithm = row->name;
  }
  return planned;
}

Error Communicator::why_not_algorithm(const anello_call_t& call) const {
  schedule::Call asked = planned(call, InPlace::no, reduction_of(call));
  // Whether ranks reach each other's buffers is known only later: an algorithm that needs this is skipped if they do
  // not.
  asked.reach = schedule::Reach::store;
  const schedule::Algorithm* const row = schedule::find(asked.collective, asked.algorithm);
  if (row != nullptr && row->fits(asked, topology_)) return {};
  return {ANELLO_ERR_ARGUMENT, text("anello_", kind_name(call.kind), Label(call.label).quoted(), ": algorithm ",
                                    Label(call.algorithm).c_str(),
                                    row == nullptr ? " is not one of its algorithms" : " does not fit this call",
                                    "; here it may be ", schedule::names_that_fit(asked, topology_))};
}

Communicator::Outlook Communicator::outlook(const anello_call_t& call) {
  if (is_message(call.kind)) return {};
  const schedule::Call asked = planned(call, in_place(call, rank()), reduction_of(call));
  const schedule::Choice choice = schedule::choose(asked, topology_, wish_);
  const auto held = context_->lock();
  return {group_->next_sequence, choice.algorithm->name.data()};  // of a literal
}

}  // namespace anello
