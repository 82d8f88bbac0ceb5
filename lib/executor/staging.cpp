// Context: how a communicator comes to its staging memory. The operation that wants it first has the board meanwhile.
#include "executor/staging.h"

#include "base/log.h"
#include "executor/context.h"
#include "executor/run.h"
#include "schedule/schedule.h"

namespace anello::executor {

transport::Extent Staging::find_range(const transport::Arena& arena, int board, int ranks) {
  const std::size_t wanted = std::size_t(ranks) * schedule::usual_staging_bytes(ranks);
  transport::BoardStaging& known = arena.header().board_staging[board];
  if (known.bytes >= wanted) {
    if (const auto range = transport::Extent::of_peer(arena, known.offset, wanted); range.offset() != 0) return range;
  }
  const auto range = transport::Extent::reserve(arena, wanted);
  if (range.offset() != 0) known = {range.offset(), wanted};
  return range;
}

void Staging::give_pages_back(const transport::Arena& arena, int board) {
  const transport::BoardStaging known = arena.header().board_staging[board];
  if (known.bytes > 0) transport::Extent::of_peer(arena, known.offset, known.bytes).give_back();
}

bool Staging::map(const transport::Arena& arena, int ranks, int rank) {
  bytes = schedule::usual_staging_bytes(ranks);
  range = transport::Extent::of_peer(arena, offset, std::size_t(ranks) * bytes);
  mapping = range.map();
  if (!mapping || !range.back(mapping, std::size_t(rank) * bytes, bytes)) return false;
  at.clear();
  for (int each = 0; each < ranks; ++each) at.push_back(mapping.data() + std::size_t(each) * bytes);
  return true;
}

void Staging::give_up(int rank) {
  if (mapping) range.give_back(std::size_t(rank) * bytes, bytes);
  mapping = {};
  at.clear();
}

void Context::set_up_staging(Operation& operation) { begin_round(operation, Round::find_staging); }

void Context::take_staging(Operation& operation) {
  const std::size_t staged = operation.plan->schedule.staging * operation.element_bytes;
  if (staged == 0) return;
  Staging& staging = operation.group->staging;
  operation.staging = staging.at.data();
  operation.staging_from = staging.take(staged, operation.plan->schedule.staging_comes_back);
}

// Up to its first meet, of which the lines tell. Others may not have done with the last call yet, but with all before
// it.
void Context::stage_early(Operation& operation) {
  operation.staged_early = true;
  take_plain(operation);
  take_staging(operation);
  // Memory that does not come back is at another place in each call.
  const bool comes_back = operation.plan->schedule.staging_comes_back;
  if (comes_back && operation.placed_staging != operation.staging_from) place_staged_steps(operation);
  if (!comes_back) operation.placed_steps.clear();
  if (operation.placed_steps.empty()) {
    std::size_t all = SIZE_MAX;
    operation.meet_step = walk(operation, 0, &all);
    return;
  }
  std::uint32_t at = 0;
  for (; operation.placed_steps[at].kind != schedule::Kind::meet; ++at)
    do_placed(operation, operation.placed_steps[at]);
  operation.meet_step = at;
}

void Context::staging_settled(Operation& operation, bool everywhere) {
  Staging& staging = operation.group->staging;
  staging.state = everywhere ? Staging::State::ready : Staging::State::failed;
  if (!everywhere) {
    log::info(rank_, "not all ranks have staging memory: their calls send messages instead");
    staging.give_up(operation.group->rank);
  }
  take_schedule(operation, operation.reach);
}

}  // namespace anello::executor
