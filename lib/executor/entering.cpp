// Context: what operations do on their communicator's board, one after the other, and how those that may go over peers'
// memory come to their schedule.
#include "base/log.h"
#include "base/text.h"
#include "executor/announcing.h"
#include "executor/context.h"
#include "executor/exchange.h"
#include "executor/pending_steps.h"
#include "executor/run.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace anello::executor {
namespace {

using schedule::Reach;

// Of one rank's regions, per communicator.
constexpr std::size_t kMostAgreed = 1024;

// The key of what lies in no region: under it a rank's process is agreed, beside the regions that it announced.
constexpr std::uint64_t kAnyMemory = 0;

// A line of the round `agree`: bit i is set where this rank has not mapped what rank i announced, or cannot read its
// process.
struct Lacking {
  using Ranks = std::array<std::uint64_t, memory::kMaxLocalRanks / 64>;
  Ranks mapping{};
  Ranks reading{};

  static void add(Ranks& ranks, std::size_t rank) { ranks[rank / 64] |= std::uint64_t{1} << (rank % 64); }
  static bool has(const Ranks& ranks, std::size_t rank) { return (ranks[rank / 64] >> (rank % 64) & 1) != 0; }
  void join(const Lacking& other) {
    for (std::size_t word = 0; word < mapping.size(); ++word) {
      mapping[word] |= other.mapping[word];
      reading[word] |= other.reading[word];
    }
  }
};
static_assert(sizeof(Lacking) <= memory::kBoardBytes);

// Both buffers of what a rank has announced, as far as some schedule goes to them.
template <class Visit>
void each_buffer(const Operation& operation, std::size_t rank, Visit&& visit) {
  const Announced& said = operation.announced[rank].at;
  if (operation.plans->peers_inputs && said.input.address != 0) visit(said.input);
  if (operation.plans->peers_outputs && said.output.address != 0) visit(said.output);
}

ResolvedStep take_lines_step() {
  ResolvedStep step;
  step.action = Action::take_lines;
  return step;
}

}  // namespace

void Context::begin_round(Operation& operation, Round round) {
  operation.round = round;
  poll_board(*operation.group);
}

void Context::poll_board(Group& group) {
  if (group.polling_board) return;  // from within: the loop below goes on
  group.polling_board = true;
  Operation* operation;
  while ((operation = group.on_board.front()) != nullptr && operation->round != Round::none) {
    Board::Seen seen = Board::Seen::complete;
    if (!operation->published && (seen = group.board.room(line_bytes(*operation))) == Board::Seen::complete) {
      operation->published = true;
      publish_line(*operation);
    }
    if (operation->published) seen = group.board.look(operation->round, operation->digest);
    if (seen != Board::Seen::complete) {
      if (seen == Board::Seen::mismatch) suspect_lines(group, *operation);
      list_board(group);
      group.polling_board = false;
      return;
    }
    operation->published = false;
    ++group.movement;
    with_memory(group, [&] { lines_came(*operation, std::exchange(operation->round, Round::none)); });
  }
  group.polling_board = false;
  on_boards_.erase(std::remove(on_boards_.begin(), on_boards_.end(), &group), on_boards_.end());
}

// Its lines are looked at whenever this rank moves anything.
void Context::list_board(Group& group) {
  if (std::find(on_boards_.begin(), on_boards_.end(), &group) == on_boards_.end()) on_boards_.push_back(&group);
}

// Of its next line, at most.
std::size_t Context::line_bytes(const Operation& operation) {
  const auto payload = [&](const Plan& plan) { return plan.schedule.steps[0].from.count * operation.element_bytes; };
  switch (operation.round) {
    case Round::exchange: return payload(*operation.plan);
    case Round::announce:
      return may_publish_payload(operation) ? payload(*operation.plans->at(Reach::none)) : sizeof(Announced);
    case Round::agree: return sizeof(Lacking);
    default: return memory::kInlineBytes;
  }
}

void Context::publish_line(Operation& operation) {
  Group& group = *operation.group;
  const auto publish = [&](const void* payload, std::size_t bytes, int needs = Board::kAll) {
    group.board.publish(kind_of(operation.round), static_cast<const std::byte*>(payload), bytes, operation.digest,
                        operation.sequence, needs);
  };
  switch (operation.round) {
    case Round::exchange: {
      const schedule::Step& step = operation.plan->schedule.steps[0];
      return publish(operation.at(step.from), line_bytes(operation), lines_needed(group, operation));
    }
    case Round::announce: return announce(operation);
    case Round::agree: {
      Lacking lacking;
      for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
        if (!has_mapped(operation, int(rank))) Lacking::add(lacking.mapping, rank);
        if (!can_read(operation, int(rank))) Lacking::add(lacking.reading, rank);
      }
      return publish(&lacking, sizeof lacking);
    }
    case Round::barrier: return publish(nullptr, 0);
    case Round::find_staging: {
      std::uint64_t offset = 0;
      if (group.rank == 0)
        offset = memory::Staging::find_range(job_->arena(), group.board.index(), group.size(),
                                             schedule::usual_staging_bytes(group.size()))
                     .offset();
      return publish(&offset, sizeof offset);
    }
    case Round::share_staging: {
      const std::byte mapped{
          group.staging.map(job_->arena(), group.size(), group.rank, schedule::usual_staging_bytes(group.size()))};
      return publish(&mapped, sizeof mapped);
    }
    case Round::none: return;
  }
}

void Context::lines_came(Operation& operation, Round round) {
  Group& group = *operation.group;
  switch (round) {
    case Round::exchange:
      if (issue(operation, Ticket::Part::lines, 0, take_lines_step())) lines_taken(operation);
      return;
    case Round::announce:
      if (const std::uint32_t next = told_by_lines(operation); next != kNotTold) {
        leave_exchange(group);
        return begin_reaching(operation, next);
      }
      return entries_came(operation);
    case Round::agree: {
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
        each_buffer(operation, rank, [&](const transport::RemoteAddress& said) {
          if (said.key != 0) group.agreed[rank].emplace(said.key, !Lacking::has(lacking.mapping, rank));
        });
      }
      return all_announced(operation);
    }
    case Round::find_staging:
      std::memcpy(&group.staging.offset, group.board.payload(0, sizeof group.staging.offset),
                  sizeof group.staging.offset);
      group.board.finish();
      return begin_round(operation, Round::share_staging);
    case Round::share_staging: {
      // Of itself a rank knows it without its line, where others could write.
      bool everywhere = !group.staging.at.empty();
      for (int rank = 0; rank < group.size(); ++rank) {
        everywhere = *group.board.payload(rank, 1) != std::byte{0} && everywhere;
      }
      group.board.finish();
      return staging_agreed(operation, everywhere);
    }
    case Round::barrier: group.board.finish(); return step_done(operation, operation.barrier_step);
    case Round::none: return;
  }
}

// Where they do not tell all of it.
void Context::entries_came(Operation& operation) {
  Group& group = *operation.group;
  const Entries entries = entries_of(operation);
  group.board.finish();
  if (entries.wrong >= 0) {
    const int world = group.ranks[std::size_t(entries.wrong)];
    return fail(group,
                Error(ANELLO_ERR_CORRUPT,
                      text(job_->describe(world), " entered a call in a way that this call does not have"), world),
                true);
  }
  // Together with those that stage now.
  if (entries.staged > 0 && operation.staged_early) return begin_reaching(operation, operation.barrier_step);
  if (entries.staged > 0 || entries.payloads > 0) return take_schedule(operation, Reach::none);
  all_announced(operation);
}

void Context::note_behind(Group& group) {
  if (std::find(behind_.begin(), behind_.end(), &group) == behind_.end()) behind_.push_back(&group);
}

// All ranks find the same here: they have the same lines, and had the same before.
void Context::all_announced(Operation& operation) {
  Group& group = *operation.group;
  if (group.by_address) return take_schedule(operation, Reach::store);
  Reach reach = Reach::store;
  bool agreed = true, away = false;
  group.agreed.resize(operation.announced.size());
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    // Alike on all ranks as well. What is still in use is agreed anew.
    if (group.agreed[rank].size() > kMostAgreed) group.agreed[rank].clear();
    const auto& known = group.agreed[rank];
    // What is not known yet may be so.
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
    operation.entry_known = false;  // it stages early from now on
  }
  if (away) reach = Reach::none;
  if (operation.plans->at(reach) == operation.plans->at(Reach::none)) return take_schedule(operation, Reach::none);
  operation.reach = reach;
  operation.agreed = agreed;
  map_announced(operation);
}

// Goes on once all that was announced is mapped here, or has turned out not to be had.
void Context::map_announced(Operation& operation) {
  bool waits = false;
  for (std::size_t rank = 0; rank < operation.announced.size(); ++rank) {
    if (reaches_by_address(operation, int(rank))) continue;
    each_buffer(operation, rank, [&](const transport::RemoteAddress& said) {
      if (said.key == 0) return;
      waits = prepare(*operation.group, int(rank), said.key) == transport::RemoteMemory::State::asked || waits;
    });
  }
  const auto listed = std::find(mapping_.begin(), mapping_.end(), &operation);
  if (waits) {
    if (listed == mapping_.end()) mapping_.push_back(&operation);
    return;
  }
  if (listed != mapping_.end()) mapping_.erase(listed);
  if (operation.agreed) return take_schedule(operation, operation.reach);
  begin_round(operation, Round::agree);
}

bool Context::reaches_by_address(const Operation& operation, int rank) const {
  const Group& group = *operation.group;
  return rank == group.rank || group.by_address || shares_addresses(group, rank);
}

bool Context::has_mapped(const Operation& operation, int rank) {
  if (reaches_by_address(operation, rank)) return true;
  bool mapped = true;
  each_buffer(operation, std::size_t(rank), [&](const transport::RemoteAddress& said) {
    if (said.key == 0) return;
    mapped = prepare(*operation.group, rank, said.key) == transport::RemoteMemory::State::ready && mapped;
  });
  return mapped;
}

bool Context::can_read(const Operation& operation, int rank) {
  return reaches_by_address(operation, rank) ||
         prepare(*operation.group, rank, kAnyMemory) == transport::RemoteMemory::State::ready;
}

void Context::take_schedule(Operation& operation, Reach reach) {
  Group& group = *operation.group;
  operation.resolved.forget();
  operation.plan = operation.plans->at(reach);
  if (operation.plan->schedule.staging > 0) {
    operation.reach = reach;
    if (group.staging.state == memory::Staging::State::none) return set_up_staging(operation);
    if (group.staging.state == memory::Staging::State::failed) operation.plan = operation.plans->unstaged;
  }
  take_staging(operation);
  operation.reach = reach;
  const Plan& plan = *operation.plan;
  operation.exposed = plan.schedule.peers_inputs || plan.schedule.peers_outputs;
  operation.buffers.assign(operation.exposed ? std::size_t(group.size()) : 0, {});
  operation.mappings.clear();
  for (std::size_t rank = 0; rank < operation.buffers.size(); ++rank) {
    transport::RemoteMemory* const memory = memory_of(group, int(rank));
    const auto place = [&](const transport::RemoteAddress& said, std::size_t elements) -> PeerBuffer {
      if (said.address == 0 || elements == 0) return {};
      auto* const address = reinterpret_cast<std::byte*>(said.address);
      if (reaches_by_address(operation, int(rank))) return {address, nullptr};
      if (reach == Reach::store || (said.key != 0 && group.agreed[rank].at(said.key))) {
        operation.mappings.emplace_back();
        if (memory == nullptr) return {};
        return {memory->map(remote_peer(group, int(rank)), said, elements * operation.element_bytes,
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
      // Of the same call each rank knows which buffers the others have.
      const bool has_none = (lacks_input && said.input.address == 0) || (lacks_output && said.output.address == 0);
      const std::string who = job_->describe(world);
      const std::string why = has_none ? who + " announced no buffer in a call that goes to it"
                                       : text("the buffer that ", who, " announced cannot be mapped any more");
      return fail(group, Error(has_none ? ANELLO_ERR_CORRUPT : ANELLO_ERR_RESOURCE, why, world), true);
    }
  }
  if (operation.exposed && plan.schedule.staging == 0) {
    operation.resolved.agreement = group.agreements;
    resolve_plan(operation);
  }
  begin_reaching(operation, 0);
}

void Context::begin_reaching(Operation& operation, std::uint32_t first) {
  Group& group = *operation.group;
  ++group.reached[std::size_t(operation.reach)];
  // Who has no more to do there gives the board to the next one; else it keeps its turn, as on all other ranks.
  if (!operation.plan->has_barrier && !operation.plan->is_exchange) group.on_board.remove(&operation);
  begin(operation, first);
}

}  // namespace anello::executor
