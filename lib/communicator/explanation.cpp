#include "communicator/explanation.h"

#include "base/kind.h"
#include "communicator/communicator.h"
#include "communicator/in_place.h"
#include "communicator/reduction.h"
#include "communicator/varying.h"
#include "schedule/predict.h"
#include "schedule/simulate.h"
#include "schedule/split.h"

#include <algorithm>

namespace anello {

Explanation Communicator::explain(const anello_call_t& call) {
  Explanation found;
  const InPlace place = in_place(call, rank());
  found.call = planned(call, place, reduction_of(call));
  if (kind_is_varying(call.kind)) found.call.varying = varying_of(call, rank(), size(), place != InPlace::no);
  found.topology = topology_;
  found.decision = schedule::decide(found.call, topology_, wish_);
  const schedule::Choice& choice = found.decision.choice;
  {
    const std::lock_guard held(plans_mutex_);
    if (const auto known = plans_.find(found.call)) found.plan = known->at(schedule::Reach::none);
  }
  found.cached = found.plan != nullptr;
  if (!found.cached)
    found.plan = executor::Plan::of(choice.algorithm->make(found.call, topology_, rank(), choice.chunk));
  for (std::size_t reach = 0; reach < schedule::kReaches; ++reach) {
    schedule::Call reaching = found.call;
    reaching.reach = schedule::Reach(reach);
    found.by_reach[reach] = schedule::choose(reaching, topology_, wish_).algorithm->name.data();  // a literal's data
  }
  for (const schedule::Space space : {schedule::Space::one_device, schedule::Space::devices}) {
    schedule::Call in_place = found.call;
    in_place.reach = schedule::Reach::store;
    in_place.space = space;
    const schedule::Algorithm* const row = schedule::choose(in_place, topology_, wish_).algorithm;
    if (row != nullptr) found.by_space[std::size_t(space)] = row->name.data();
  }
  {
    const auto held = context_->lock();
    found.on_devices = group_->on_devices;
    std::copy(std::begin(group_->reached), std::end(group_->reached), found.reached.begin());
  }
  found.totals = schedule::totals(found.call, size(), rank(), found.plan->schedule);
  found.chunks = schedule::Split(found.call.count, choice.algorithm->cuts_blocks ? size() : 1, choice.chunk).chunks();
  // All ranks' schedules have about the same size. Above this limit, the estimate would take longer than many calls.
  constexpr std::size_t kMostSteps = 200'000;
  if (found.call.varying == nullptr && found.plan->schedule.steps.size() * std::size_t(size()) <= kMostSteps) {
    const auto all = schedule::make_all(*choice.algorithm, found.call, topology_, choice.chunk);
    found.seconds = schedule::predict(found.call, topology_, all, schedule::typical_cost(topology_.network)).seconds;
  }
  return found;
}

}  // namespace anello
