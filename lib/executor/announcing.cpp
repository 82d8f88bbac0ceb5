#include "executor/announcing.h"

#include "executor/entering.h"
#include "executor/exchange.h"
#include "executor/run.h"
#include "executor/steps.h"
#include "memory/buffer.h"
#include "memory/process_memory.h"

#include <cstring>
#include <utility>

namespace anello::executor {
namespace {

using schedule::Reach;

// Whether this rank knows by itself that others cannot map its buffers, or that no schedule accesses them.
bool lacks_regions(const Operation& operation, const Announced& own) {
  if (!operation.plans->peers_inputs && !operation.plans->peers_outputs) return true;
  const auto lacks = [](bool matters, const transport::RemoteAddress& buffer) {
    return matters && buffer.address != 0 && buffer.key == 0;
  };
  return lacks(operation.plans->peers_inputs, own.input) || lacks(operation.plans->peers_outputs, own.output);
}

// Whether others may read by system call the buffers that they cannot map. Some memory cannot be read so, such as a
// device's that is mapped, and a call that finds that out midway is lost.
bool is_read_instead(const Operation& operation, const Announced& own) {
  if (!operation.plans->reads_by_policy() || operation.group->unreadable) return false;
  const schedule::Schedule& reading = operation.plans->at(Reach::read)->schedule;
  const auto can_be = [](bool read, const transport::RemoteAddress& buffer, std::size_t bytes) {
    return !read || buffer.address == 0 || buffer.key != 0 || memory::can_be_read(buffer.address, bytes);
  };
  return can_be(reading.peers_inputs, own.input, operation.input_bytes) &&
         can_be(reading.peers_outputs, own.output, operation.output_bytes);
}

bool may_stage_early(const Operation& operation) {
  return operation.group->staging.state == memory::Staging::State::ready && operation.plans->may_stage_at_once();
}
// Whether its staging memory lies apart from the last call's, in which others may still be.
bool stages_apart(const Operation& operation) {
  const schedule::Schedule& plain = operation.plans->at(Reach::none)->schedule;
  return operation.group->staging.apart(plain.staging * operation.element_bytes, plain.staging_comes_back);
}

// Whether a rank may decide by itself that the call goes by messages. One rank alone gives data: it goes on at once,
// and no other is in its way. A receiver waits for its sender anyway, and a sender that has announced its buffer waits
// for all.
bool may_send_early(const Operation& operation) {
  if (operation.group->by_address || !operation.plans->may_send_at_once()) return false;
  return operation.kind == ANELLO_BROADCAST || (operation.kind == ANELLO_REDUCE && operation.group->size() == 2);
}

// Changes with all that a rank's line depends on: its regions, and the presence of staging memory.
std::uint64_t line_version(const Operation& operation) {
  const bool staging = operation.group->staging.state == memory::Staging::State::ready;
  return memory::regions_version() << 1 | (staging ? 1 : 0);
}

// A rank knows its own kind without its line, to which others could write: it goes on as it has prepared.
LineKind kind_of_line(const Operation& operation, int rank) {
  return rank == operation.group->rank ? operation.entry : operation.group->board.kind(rank);
}

bool is_buffers(LineKind kind) {
  return kind == LineKind::buffers || kind == LineKind::keep_away || kind == LineKind::on_device;
}

// Takes the plan of a call whose ranks reach no other rank's buffers.
void take_plain(Operation& operation) {
  const std::shared_ptr<const Plan>& plain = operation.plans->at(Reach::none);
  if (operation.plan != plain) operation.plan = plain;
  operation.reach = Reach::none;
  if (operation.resolved.agreement != 0) operation.resolved.forget();
}

// Does the steps up to the first barrier, for which the lines stand. Others may still be in the last call, but in none
// before it.
void stage_early(Operation& operation) {
  operation.staged_early = true;
  take_plain(operation);
  take_staging(operation);
  // Memory that does not come back lies at another place in each call.
  const bool comes_back = operation.plan->schedule.staging_comes_back;
  if (comes_back && operation.resolved.staging_from != operation.staging_from) resolve_staged_plan(operation);
  if (!comes_back) operation.resolved.steps.clear();
  std::size_t all = SIZE_MAX;
  operation.barrier_step = advance(operation, 0, &all);
}

void publish_entry(Operation& operation) {
  Group& group = *operation.group;
  const LineKind entry = operation.entry;
  const auto publish = [&](const void* payload, std::size_t bytes, int needs = Board::kAll) {
    group.board.publish(entry, static_cast<const std::byte*>(payload), bytes, operation.digest, operation.sequence,
                        needs);
  };
  if (is_payload(entry)) return publish(operation.exchange.from, operation.exchange.bytes);
  if (is_sends(entry)) return publish(nullptr, 0, Board::kNobody);
  if (is_staged(entry)) {
    stage_early(operation);
    return publish(nullptr, 0);
  }
  // Exposed from here on: a late rank finds these lines, and may begin although this rank has given up.
  operation.exposed = true;
  publish(&operation.announced[std::size_t(group.rank)].at, sizeof(Announced));
}

void announce_on_device(Operation& operation) {
  Group& group = *operation.group;
  operation.entry = LineKind::on_device;
  operation.entry_known = false;
  operation.announced.resize(std::size_t(group.size()));
  operation.announced[std::size_t(group.rank)] = {operation.shadow->offer, LineKind::on_device};
  operation.announces_as_before = false;
  publish_entry(operation);
}

}  // namespace

bool may_publish_payload(const Operation& operation) {
  if (operation.kind == ANELLO_BROADCAST || operation.kind == ANELLO_SCATTER) return false;
  return !operation.group->by_address && operation.plans->may_exchange_at_once();
}

Entries entries_of(const Operation& operation) {
  const Group& group = *operation.group;
  const bool may_be_payload = may_publish_payload(operation);
  const bool may_be_staged = may_stage_early(operation);
  const bool may_be_sent = may_send_early(operation);
  Entries entries;
  for (int rank = 0; rank < group.size(); ++rank) {
    const LineKind kind = kind_of_line(operation, rank);
    entries.for_speed = entries.for_speed || is_for_speed(kind);
    if (is_payload(kind) && may_be_payload) {
      ++entries.payloads;
    } else if (is_staged(kind) && may_be_staged) {
      ++entries.staged;
    } else if (is_sends(kind) && may_be_sent) {
      ++entries.sends;
    } else if (!is_buffers(kind) || (kind == LineKind::on_device && operation.announced_anew)) {
      entries.wrong = rank;
    }
  }
  return entries;
}

Announcing::Announcing(Parts& parts) : buffers_(parts.buffers), steps_(parts.steps), staging_(parts.staging) {}

// Decides whether this rank prefers a staged call to reads in place. If any rank does, the call is staged.
void Announcing::take_turn(Operation& operation) const {
  Group& group = *operation.group;
  const std::size_t bytes = operation.count * operation.element_bytes;
  const bool from_one = operation.kind == ANELLO_BROADCAST;
  memory::ReadPolicy::Turn turn{};
  if (operation.plans->may_be_staged && !group.by_address &&
      memory::ReadPolicy::concerns(bytes, group.size(), from_one)) {
    if (staging_ == memory::ReadPolicy::Wish::by_time)
      turn = group.reading[std::size_t(operation.kind)].next(bytes, operation.plans->reads_peers);
    else if (staging_ == memory::ReadPolicy::Wish::always)
      turn.way = memory::ReadPolicy::Way::staged;
  }
  const bool away = turn.way == memory::ReadPolicy::Way::staged;
  const bool judged = away && !turn.trial && operation.plans->reads_peers;
  if (away == operation.stays_away && judged == operation.judged_slow) return;
  operation.stays_away = away;
  operation.judged_slow = judged;
  operation.entry_known = false;
}

void Announcing::announce(Operation& operation) const {
  Group& group = *operation.group;
  if (operation.is_on_device()) return announce_on_device(operation);
  operation.entry_version = line_version(operation);
  operation.entry_known = true;
  const auto said = [&](const void* address, std::size_t bytes) -> transport::RemoteAddress {
    if (address == nullptr || bytes == 0) return {};
    return transport::address_of(buffers_.find(address, bytes));
  };
  const Announced own{said(operation.own_input(), operation.input_bytes),
                      said(operation.output, operation.output_bytes)};
  const bool slow = operation.stays_away, judged = operation.judged_slow;
  const bool lacks = slow || (lacks_regions(operation, own) &&
                              (staging_ == memory::ReadPolicy::Wish::always || !is_read_instead(operation, own)));
  // A rank that enters at once does its first steps before it publishes its line, or as soon as the lines are there.
  // Only an immediate engine can.
  const bool at_once = lacks && steps_.is_immediate();
  const bool may_stage = at_once && may_stage_early(operation);
  if (may_stage && stages_apart(operation)) {
    operation.entry = judged ? LineKind::staged_for_speed : LineKind::staged;
  } else if (at_once && may_publish_payload(operation)) {
    take_plain(operation);
    prepare_exchange(group, operation);
    operation.entry = judged ? LineKind::payload_for_speed : LineKind::payload;
  } else if (lacks && may_send_early(operation)) {
    take_plain(operation);
    operation.entry = judged ? LineKind::sends_for_speed : LineKind::sends;
  } else {
    operation.entry = slow || (lacks && operation.plans->reads_by_policy()) ? LineKind::keep_away : LineKind::buffers;
    operation.announced.resize(std::size_t(group.size()));
    const Announcement now{own, operation.entry};
    operation.announces_as_before = std::exchange(operation.announced[std::size_t(group.rank)], now) == now;
    // If it may stage, the next call may find its place apart again.
    operation.entry_known = !may_stage;
  }
  publish_entry(operation);
}

bool Announcing::enters_again(Operation& operation) const {
  if (!operation.entry_known || operation.entry_version != line_version(operation)) return false;
  if (is_staged(operation.entry) && !stages_apart(operation)) return false;
  operation.announces_as_before = true;
  publish_entry(operation);
  return true;
}

std::uint32_t Announcing::decide_by_lines(Operation& operation) const {
  Group& group = *operation.group;
  // A rank that sends needs only its own line: the others' may be missing.
  const Entries entries = is_sends(operation.entry) ? Entries{.sends = 1} : entries_of(operation);
  if (entries.for_speed) group.reading[std::size_t(operation.kind)].follow(operation.count * operation.element_bytes);
  if (entries.wrong >= 0) return kUndecided;
  // First its data must come to the host.
  if (operation.is_on_device() && entries.sends + entries.payloads + entries.staged > 0) return kUndecided;
  if (entries.sends > 0) {
    take_plain(operation);
    operation.exposed = false;  // no rank accesses its buffers
    return 0;
  }
  if (entries.payloads > 0) {
    if (entries.payloads < group.size()) return kUndecided;
    take_lines(group, operation);
    return 1;
  }
  if (entries.staged > 0) return entries.staged < group.size() ? kUndecided : operation.barrier_step + 1;
  bool as_before = operation.announces_as_before;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank) continue;  // the others are loading that line
    Announcement said;
    said.kind = group.board.kind(rank);
    std::memcpy(&said.at, group.board.payload(rank, sizeof said.at), sizeof said.at);
    as_before = std::exchange(operation.announced[std::size_t(rank)], said) == said && as_before;
  }
  if (as_before && operation.resolved.agreement == group.agreements) return 0;
  operation.resolved.forget();
  return kUndecided;
}

std::uint32_t Announcing::decide_as_before(Operation& operation) const {
  const Group& group = *operation.group;
  const Board& board = group.board;
  const LineKind entry = operation.entry;
  if (is_sends(entry)) return 0;
  const bool buffers = is_buffers(entry);
  bool same = !buffers || operation.resolved.agreement == group.agreements;
  for (int peer = 0; peer < group.size() && same; ++peer) {
    if (peer == group.rank) continue;  // the others are loading that line
    const LineKind kind = board.kind(peer);
    if (buffers) {
      const Announcement& before = operation.announced[std::size_t(peer)];
      same = kind == before.kind &&
             std::memcmp(&before.at, board.payload(peer, sizeof(Announced)), sizeof(Announced)) == 0;
    } else {
      same = is_staged(entry) ? is_staged(kind) : is_payload(kind);
    }
  }
  if (!same) return decide_by_lines(operation);
  if (buffers) return 0;
  if (is_staged(entry)) return operation.barrier_step + 1;
  take_lines(group, operation);
  return 1;
}

}  // namespace anello::executor
