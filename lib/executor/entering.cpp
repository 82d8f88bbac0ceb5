#include "executor/entering.h"

#include "base/log.h"
#include "base/text.h"
#include "control/job.h"
#include "executor/announcing.h"
#include "executor/outcomes.h"
#include "executor/rounds.h"
#include "executor/routes.h"
#include "executor/run.h"

#include <algorithm>
#include <cstring>

namespace anello::executor {
namespace {

using schedule::Reach;

// The key of memory outside all regions. Under it the ranks agree on whether all can read a rank's process.
constexpr std::uint64_t kAnyMemory = 0;

// Visits the buffers that a rank has announced and that some schedule accesses.
template <class Visit>
void each_buffer(const Operation& operation, std::size_t rank, Visit&& visit) {
  const Announced& said = operation.announced[rank].at;
  const bool all = operation.is_on_device();
  if ((all || operation.plans->peers_inputs) && said.input.address != 0) visit(said.input);
  if ((all || operation.plans->peers_outputs) && said.output.address != 0) visit(said.output);
}

}  // namespace

Entering::Entering(Parts& parts) : parts_(parts), job_(parts.job), routes_(parts.routes), outcomes_(parts.outcomes) {}

void Entering::entries_came(Operation& operation) {
  Group& group = *operation.group;
  const Entries entries = entries_of(operation);
  group.board.finish();
  if (entries.wrong >= 0) {
    const int world = group.ranks[std::size_t(entries.wrong)];
    return outcomes_.fail(
        group,
        Error(ANELLO_ERR_CORRUPT, text(job_.describe(world), " entered a call in a way that this call does not have"),
              world),
        true);
  }
  // This rank has staged already: at the barrier it meets those that stage now.
  if (entries.staged > 0 && operation.staged_early) return begin_reaching(operation, operation.barrier_step);
  if (entries.staged + entries.payloads + entries.sends > 0) return take_schedule(operation, Reach::none);
  all_announced(operation);
}

// The announced memory that this rank could not map, and the processes that it cannot read.
Lacking Entering::lacking_of(const Operation& operation) const {
  Lacking lacking;
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    if (!has_mapped(operation, int(rank))) Lacking::add(lacking.mapping, rank);
    if (!can_read(operation, int(rank))) Lacking::add(lacking.reading, rank);
  }
  return lacking;
}

// The lines of the round `agree` are here: no rank uses memory that one of them lacks.
void Entering::all_agreed(Operation& operation) {
  Group& group = *operation.group;
  Lacking lacking;
  for (int rank = 0; rank < group.size(); ++rank) {
    Lacking its;
    std::memcpy(&its, group.board.payload(rank, sizeof its), sizeof its);
    lacking.join(its);
  }
  group.board.finish();
  ++group.agreements;
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    group.agreed[rank].emplace(kAnyMemory, !Lacking::has(lacking.reading, rank));
    const bool mapped = !Lacking::has(lacking.mapping, rank);
    each_buffer(operation, rank, [&](const transport::RemoteAddress& said) {
      if (operation.is_on_device() && !mapped) {
        note_refusal(operation, rank, said.key);
      } else if (said.key != 0) {
        group.agreed[rank].emplace(said.key, mapped);
      }
    });
  }
  all_announced(operation);
}

// All ranks draw identical conclusions here: their lines are identical, and so were all earlier ones.
void Entering::all_announced(Operation& operation) {
  Group& group = *operation.group;
  if (is_any_on_device(operation)) return devices_announced(operation);
  if (group.by_address) return take_schedule(operation, Reach::store);
  Reach reach = Reach::store;
  bool agreed = true, away = false;
  group.agreed.resize(operation.announced.size());
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    // All ranks do this alike. They agree anew on regions still in use.
    if (group.agreed[rank].size() > kMostAgreed) group.agreed[rank].clear();
    const auto& known = group.agreed[rank];
    // Memory that is not known yet counts as allowed.
    const auto allows = [&](std::uint64_t what) {
      const auto found = known.find(what);
      agreed = agreed && found != known.end();
      return found == known.end() || found->second;
    };
    if (operation.announced[rank].kind == LineKind::keep_away) {
      away = true;
      continue;
    }
    each_buffer(operation, rank, [&](const transport::RemoteAddress& said) {
      if (said.key == 0 || !allows(said.key)) {
        reach = std::min(reach, allows(kAnyMemory) ? Reach::read : Reach::none);
      }
    });
  }
  if (reach == Reach::none) {
    group.unreadable = true;
    operation.entry_known = false;  // this rank stages early from now on
  }
  if (away) reach = Reach::none;
  if (operation.plans->at(reach) == operation.plans->at(Reach::none)) return take_schedule(operation, Reach::none);
  operation.reach = reach;
  operation.agreed = agreed;
  map_announced(operation);
}

// Goes on once each announced region is mapped here or refused.
void Entering::map_announced(Operation& operation) {
  bool waits = false;
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    if (reaches_by_address(operation, int(rank))) continue;
    each_buffer(operation, rank, [&](const transport::RemoteAddress& said) {
      if (said.key == 0) return;
      waits = prepare(operation, int(rank), said.key) == transport::RemoteMemory::State::asked || waits;
    });
  }
  const auto listed = std::find(mapping_.begin(), mapping_.end(), &operation);
  if (waits) {
    if (listed == mapping_.end()) mapping_.push_back(&operation);
    return;
  }
  if (listed != mapping_.end()) mapping_.erase(listed);
  if (!operation.agreed) return parts_.rounds.begin(operation, Round::agree);
  operation.is_on_device() ? take_devices(operation) : take_schedule(operation, operation.reach);
}

bool Entering::is_mapping(const Operation& operation) const {
  return std::find(mapping_.begin(), mapping_.end(), &operation) != mapping_.end();
}

void Entering::region_came() {
  for (Operation* waiting : std::vector<Operation*>(mapping_)) {
    if (waiting->state != Operation::State::entering) continue;
    outcomes_.with_memory(*waiting->group, [&] { map_announced(*waiting); });
  }
}

void Entering::forget(Operation& operation) { std::erase(mapping_, &operation); }

transport::RemoteMemory::State Entering::prepare(const Operation& operation, int rank, std::uint64_t key) const {
  if (!operation.is_on_device()) return routes_.prepare(*operation.group, rank, key);
  return routes_.device_memory(operation.shadow->device).prepare(routes_.remote_peer(*operation.group, rank), key);
}

// On a device even threads' memory has to be prepared.
bool Entering::reaches_by_address(const Operation& operation, int rank) const {
  const Group& group = *operation.group;
  if (operation.is_on_device()) return false;
  return rank == group.rank || group.by_address || routes_.shares_addresses(group, rank);
}

bool Entering::has_mapped(const Operation& operation, int rank) const {
  if (reaches_by_address(operation, rank)) return true;
  bool mapped = true;
  each_buffer(operation, std::size_t(rank), [&](const transport::RemoteAddress& said) {
    if (said.key == 0) return;
    mapped = prepare(operation, rank, said.key) == transport::RemoteMemory::State::ready && mapped;
  });
  return mapped;
}

bool Entering::can_read(const Operation& operation, int rank) const {
  return rank == operation.group->rank || routes_.shares_addresses(*operation.group, rank) ||
         routes_.prepare(*operation.group, rank, kAnyMemory) == transport::RemoteMemory::State::ready;
}

// Finds the buffers that the operation's plan accesses. False: the communicator has failed.
bool Entering::find_buffers(Operation& operation, Reach reach) {
  Group& group = *operation.group;
  const Plan& plan = *operation.plan;
  operation.buffers.assign(operation.exposed ? std::size_t(group.size()) : 0, {});
  operation.mappings.clear();
  for (std::size_t rank = 0; rank < operation.buffers.size(); ++rank) {
    transport::RemoteMemory* const memory = operation.is_on_device() ? &routes_.device_memory(operation.shadow->device)
                                                                     : routes_.memory_of(group, int(rank));
    const auto place = [&](const transport::RemoteAddress& said, std::size_t elements) -> PeerBuffer {
      if (said.address == 0 || elements == 0) return {};
      auto* const address = reinterpret_cast<std::byte*>(said.address);
      if (reaches_by_address(operation, int(rank))) return {address, nullptr};
      if (reach == Reach::store || (said.key != 0 && group.agreed[rank].at(said.key))) {
        operation.mappings.emplace_back();
        if (memory == nullptr) return {};
        return {memory->map(routes_.remote_peer(group, int(rank)), said, elements * operation.element_bytes,
                            &operation.mappings.back()),
                nullptr};
      }
      return {address, memory};
    };
    const Announced& said = operation.announced[rank].at;
    const std::size_t inputs = plan.peer_inputs.at(rank), outputs = plan.peer_outputs.at(rank);
    const PeerBuffers& found = operation.buffers[rank] = {place(said.input, inputs), place(said.output, outputs)};
    const bool lacks_input = inputs > 0 && found.input.at == nullptr;
    const bool lacks_output = outputs > 0 && found.output.at == nullptr;
    if (lacks_input || lacks_output) {
      const int world = group.ranks[rank];
      // All make one call, so each rank knows which buffers the others have.
      const bool has_none = (lacks_input && said.input.address == 0) || (lacks_output && said.output.address == 0);
      const std::string who = job_.describe(world);
      const std::string why = has_none ? who + " announced no buffer in a call that goes to it"
                                       : text("the buffer that ", who, " announced cannot be mapped any more");
      outcomes_.fail(group, Error(has_none ? ANELLO_ERR_CORRUPT : ANELLO_ERR_RESOURCE, why, world), true);
      return false;
    }
  }
  return true;
}

void take_staging(Operation& operation) {
  const std::size_t staged = operation.plan->schedule.staging * operation.element_bytes;
  if (staged == 0) return;
  memory::Staging& staging = operation.group->staging;
  operation.staging = staging.at.data();
  operation.staging_from = staging.take(staged, operation.plan->schedule.staging_comes_back);
}

void Entering::take_schedule(Operation& operation, Reach reach) {
  Group& group = *operation.group;
  if (operation.is_on_device()) return move_to_host(operation, Shadow::Then::plain);
  operation.resolved.forget();
  operation.plan = operation.plans->at(reach);
  if (operation.plan->schedule.staging > 0) {
    operation.reach = reach;
    if (group.staging.state == memory::Staging::State::none) return parts_.rounds.begin(operation, Round::find_staging);
    if (group.staging.state == memory::Staging::State::failed) operation.plan = operation.plans->unstaged;
  }
  take_staging(operation);
  operation.reach = reach;
  const Plan& plan = *operation.plan;
  operation.exposed = plan.schedule.peers_inputs || plan.schedule.peers_outputs;
  if (!find_buffers(operation, reach)) return;
  if (operation.exposed && plan.schedule.staging == 0) {
    operation.resolved.agreement = group.agreements;
    resolve_plan(operation);
  }
  begin_reaching(operation, 0);
}

void Entering::staging_agreed(Operation& operation, bool everywhere) {
  memory::Staging& staging = operation.group->staging;
  staging.state = everywhere ? memory::Staging::State::ready : memory::Staging::State::failed;
  if (!everywhere) {
    log::info(job_.rank(), "not all ranks have staging memory: their calls send messages instead");
    staging.give_up(operation.group->rank);
  }
  take_schedule(operation, operation.reach);
}

void Entering::begin_reaching(Operation& operation, std::uint32_t first) {
  Group& group = *operation.group;
  ++group.reached[std::size_t(operation.reach)];
  // A call that needs the board no more passes it on; any other keeps its turn, as it does on all other ranks.
  if (!operation.plan->has_barrier && !operation.plan->is_exchange) group.on_board.remove(&operation);
  begin(operation, first);
}

}  // namespace anello::executor
