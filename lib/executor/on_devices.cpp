// Entering: calls whose ranks all have their buffers on devices, and may do them there. Each offers it and announces
// its buffers' places in devices' memory. If some rank does not, or a device does not reach all of them, or there is no
// schedule for such a call, the data of those that did goes to the host, and all announce their buffers anew.
#include "base/log.h"
#include "base/text.h"
#include "executor/announcing.h"
#include "executor/entering.h"
#include "executor/outcomes.h"
#include "executor/rounds.h"
#include "executor/routes.h"
#include "executor/run.h"
#include "executor/shadows.h"

#include <algorithm>

namespace anello::executor {
namespace {

using schedule::Space;

// Visits the buffers that a rank has announced.
template <class Visit>
void each_of(const Announced& said, Visit&& visit) {
  if (said.input.address != 0) visit(said.input);
  if (said.output.address != 0) visit(said.output);
}

// Whether ranks do not try again to open that memory of a rank. Equal on all ranks.
bool is_refused(const Operation& operation, std::size_t rank, std::uint64_t key) {
  const auto& refusals = operation.group->device_refusals;
  if (refusals.empty()) return false;
  const auto found = refusals[rank].find(key);
  return found != refusals[rank].end() && !control::before(found->second.again_at, operation.sequence + 1);
}

}  // namespace

bool is_any_on_device(const Operation& operation) {
  return std::any_of(operation.announced.begin(), operation.announced.end(),
                     [](const Announcement& each) { return each.kind == LineKind::on_device; });
}

bool Entering::is_worth_offering(const Operation& operation) {
  const Group& group = *operation.group;
  if (group.space != Space::host && operation.plans->at(group.space) == nullptr) return false;
  bool worth = true;
  each_of(operation.shadow->offer, [&](const transport::RemoteAddress& own) {
    worth = worth && !is_refused(operation, std::size_t(group.rank), own.key);
  });
  return worth;
}

void Entering::note_refusal(const Operation& operation, std::size_t rank, std::uint64_t key) {
  constexpr std::uint32_t kMostDoublings = 6;  // an attempt costs some 100 us, and that many calls much more
  DeviceRefusal& refusal = operation.group->device_refusals[rank][key];
  refusal.again_at = operation.sequence + (std::uint32_t{1} << std::min(refusal.times, kMostDoublings));
  ++refusal.times;
}

void Entering::enter(Operation& operation) {
  // Only this rank knows that, so its first line says where its host buffers are.
  if (operation.is_on_device() && !is_worth_offering(operation)) return move_to_host(operation, Shadow::Then::announce);
  parts_.rounds.begin(operation, Round::announce);
}

// All ranks draw identical conclusions here, as in all_announced().
void Entering::devices_announced(Operation& operation) {
  Group& group = *operation.group;
  bool all = true, known = true, agreed = true;
  group.agreed.resize(operation.announced.size());
  group.device_refusals.resize(operation.announced.size());
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    if (group.agreed[rank].size() > kMostAgreed) group.agreed[rank].clear();
    if (group.device_refusals[rank].size() > kMostAgreed) group.device_refusals[rank].clear();
    const Announcement& said = operation.announced[rank];
    all = all && said.kind == LineKind::on_device;
    each_of(said.at, [&](const transport::RemoteAddress& buffer) {
      known = known && group.agreed[rank].contains(buffer.key);
      agreed = agreed && !is_refused(operation, rank, buffer.key);
    });
  }
  if (!all || !agreed) return announce_anew(operation);
  try_refused_again(operation);
  operation.reach = schedule::Reach::store;
  operation.agreed = known;
  map_announced(operation);
}

void Entering::try_refused_again(const Operation& operation) const {
  const auto& refusals = operation.group->device_refusals;
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    each_of(operation.announced[rank].at, [&](const transport::RemoteAddress& buffer) {
      if (refusals[rank].contains(buffer.key)) routes_.device_memory(operation.shadow->device).try_again(buffer.key);
    });
  }
}

// Where the ranks' buffers are: all ranks have their keys, and so find the same.
Space Entering::space_of(const Operation& operation) const {
  const Group& group = *operation.group;
  const transport::RemoteMemory& memory = routes_.device_memory(operation.shadow->device);
  std::optional<transport::DevicePlace> first;
  bool in_turns = !group.by_address;
  for (const Announcement& said : operation.announced) {
    each_of(said.at, [&](const transport::RemoteAddress& buffer) {
      const std::optional<transport::DevicePlace> place = memory.place_of(buffer.key);
      if (!first) first = place;
      in_turns = in_turns && place == first && place && !place->runs_together;
    });
  }
  return in_turns ? Space::one_device : Space::devices;
}

void Entering::take_devices(Operation& operation) {
  Group& group = *operation.group;
  group.space = space_of(operation);
  const std::shared_ptr<const Plan>& plan = operation.plans->at(group.space);
  if (plan == nullptr) return announce_anew(operation);
  Shadow& shadow = *operation.shadow;
  try {
    const std::size_t aside = plan->schedule.scratch * operation.element_bytes;
    if (shadow.scratch.bytes() < aside)
      shadow.scratch = device::ScratchBlock::take(device::Device::of(shadow.device), aside);
  } catch (const Error& of_device) {
    return outcomes_.fail(group, job_.own_error(of_device), true);
  }
  operation.resolved.forget();
  operation.plan = plan;
  shadow.way = Shadow::Way::in_place;
  operation.exposed = plan->schedule.peers_inputs || plan->schedule.peers_outputs;
  if (!find_buffers(operation, schedule::Reach::store)) return;
  ++group.on_devices;
  begin_reaching(operation, 0);
}

void Entering::announce_anew(Operation& operation) {
  operation.announced_anew = true;
  if (operation.is_on_device()) return move_to_host(operation, Shadow::Then::announce);
  parts_.rounds.begin(operation, Round::announce);
}

void Entering::move_to_host(Operation& operation, Shadow::Then then) {
  operation.shadow->then = then;
  try {
    parts_.shadows.move_to_host(operation);
  } catch (const Error& of_device) {
    outcomes_.fail(*operation.group, job_.own_error(of_device), true);
  }
}

void Entering::data_came(Operation& operation) {
  outcomes_.with_memory(*operation.group, [&] {
    if (operation.shadow->then == Shadow::Then::announce) return parts_.rounds.begin(operation, Round::announce);
    Group& group = *operation.group;
    take_schedule(operation, schedule::Reach::none);
    parts_.rounds.poll(group);  // it may have passed on its turn
  });
}

}  // namespace anello::executor
