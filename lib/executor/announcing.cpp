// Context: what a rank's first line of a call over peers' memory says, and what all of them tell. A rank says where its
// buffers are; one that knows by itself that the others cannot reach them goes on at once in the way that is left, and
// says that.
#include "executor/announcing.h"

#include "base/clock.h"
#include "executor/context.h"
#include "executor/fold.h"
#include "executor/run.h"
#include "transports/process_memory.h"

#include <cstring>
#include <utility>

namespace anello::executor {
namespace {

using schedule::Reach;
using Says = Operation::Says;

// The line of who stages or sends at once: because others cannot go to its buffers, or shall not, since that takes
// longer.
constexpr std::byte kUnreachable[] = {std::byte{1}, std::byte{1}}, kFar[] = {std::byte{2}, std::byte{2}};
// Which of both, its length tells.
constexpr std::size_t kStagedBytes = 1, kSendsBytes = 2;

// Whether this rank knows by itself that others cannot map its buffers, or that no schedule goes to them.
bool lacks_regions(const Operation& operation, const Announced& own) {
  if (!operation.plans->peers_inputs && !operation.plans->peers_outputs) return true;
  const auto lacks = [](bool matters, const AnnouncedBuffer& buffer) {
    return matters && buffer.address != 0 && buffer.region == 0;
  };
  return lacks(operation.plans->peers_inputs, own.input) || lacks(operation.plans->peers_outputs, own.output);
}

// Whether others may read by system call what they cannot map of it. Some memory cannot, as a device's that is mapped,
// and a call that has found that out in its middle is lost.
bool is_read_instead(const Operation& operation, const Announced& own) {
  if (!operation.plans->reads_on_trial || operation.group->unreadable) return false;
  const schedule::Schedule& reading = operation.plans->at(Reach::read)->schedule;
  const auto can_be = [](bool read, const AnnouncedBuffer& buffer, std::size_t bytes) {
    return !read || buffer.address == 0 || buffer.region != 0 || transport::can_be_read(buffer.address, bytes);
  };
  return can_be(reading.peers_inputs, own.input, operation.input_bytes) &&
         can_be(reading.peers_outputs, own.output, operation.output_bytes);
}

bool may_stage_early(const Operation& operation) {
  return operation.group->staging.state == Staging::State::ready && operation.plans->may_stage_at_once();
}
// Whether it may do so before the others are known to have done with the last call.
bool stages_apart(const Operation& operation) {
  const schedule::Schedule& plain = operation.plans->at(Reach::none)->schedule;
  return operation.group->staging.apart(plain.staging * operation.element_bytes, plain.staging_comes_back);
}

// Whether a rank may say by itself that the call goes by messages. One rank alone gives: it goes on at once, and nobody
// else is in its way; who takes must wait for that one anyway, and that one, if it has said where its buffer is, for
// all.
bool may_send_early(const Operation& operation) {
  if (operation.group->by_address || !operation.plans->may_send_at_once()) return false;
  return operation.kind == ANELLO_BROADCAST || (operation.kind == ANELLO_REDUCE && operation.group->size() == 2);
}

// Changes with whatever a rank's line depends on: its regions, and whether there is staging memory.
std::uint64_t line_version(const Operation& operation) {
  const bool staging = operation.group->staging.state == Staging::State::ready;
  return transport::regions_version() << 1 | (staging ? 1 : 0);
}

bool any_says_far(const Group& group) {
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::size_t bytes = group.board.payload_bytes(rank);
    if ((bytes == kStagedBytes || bytes == kSendsBytes) && *group.board.payload(rank, bytes) == kFar[0]) return true;
  }
  return false;
}

// How long a rank's line is, which says what it is. Of itself a rank knows it without its line, where others could
// write: what it has prepared is what it goes on with.
std::size_t length_of(const Operation& operation, int rank) {
  if (rank != operation.group->rank) return operation.group->board.payload_bytes(rank);
  switch (operation.says) {
    case Says::payload: return operation.exchange.bytes;
    case Says::staged: return kStagedBytes;
    case Says::sends: return kSendsBytes;
    default: return sizeof(Announced);
  }
}

// What all lines are as long as, where all ranks say the same.
bool is_as_long(Says says, std::size_t bytes) {
  switch (says) {
    case Says::payload: return bytes != sizeof(Announced);  // lines with parts of another size would be another call
    case Says::staged: return bytes == kStagedBytes;
    default: return bytes == sizeof(Announced);
  }
}

}  // namespace

bool may_publish_payload(const Operation& operation) {
  if (operation.kind == ANELLO_BROADCAST || operation.kind == ANELLO_SCATTER) return false;
  if (operation.group->by_address || !operation.plans->may_exchange_at_once()) return false;
  const schedule::Step& step = operation.plans->at(Reach::none)->schedule.steps[0];
  return step.from.count * operation.element_bytes > sizeof(Announced);
}

int published_payloads(const Operation& operation) {
  if (!may_publish_payload(operation)) return 0;
  int payloads = 0;
  for (int rank = 0; rank < operation.group->size(); ++rank) {
    payloads += length_of(operation, rank) != sizeof(Announced) ? 1 : 0;
  }
  return payloads;
}

int staged_early(const Operation& operation) {
  if (!may_stage_early(operation)) return 0;
  int staged = 0;
  for (int rank = 0; rank < operation.group->size(); ++rank) {
    staged += length_of(operation, rank) == kStagedBytes ? 1 : 0;
  }
  return staged;
}

bool sends_at_once(const Operation& operation) {
  if (operation.says == Says::sends) return true;
  if (!may_send_early(operation)) return false;
  for (int rank = 0; rank < operation.group->size(); ++rank) {
    if (length_of(operation, rank) == kSendsBytes) return true;
  }
  return false;
}

// Whether the call is rather staged than read where it lies. Where any rank finds so, it is.
void Context::find_how_near(Operation& operation) {
  Nearness::Way way = Nearness::Way::read;
  if (operation.plans->may_be_staged && !operation.group->by_address) {
    Nearness& nearness = operation.group->nearness[std::size_t(operation.kind)];
    way = nearness.way(operation.count * operation.element_bytes, operation.group->size(), staging_,
                       operation.kind == ANELLO_BROADCAST);
  }
  operation.timed = way == Nearness::Way::read_timed;
  operation.began_ns = operation.timed || way == Nearness::Way::staged_timed ? now_ns() : 0;
  const bool away = way == Nearness::Way::staged || way == Nearness::Way::staged_timed;
  if (std::exchange(operation.stays_away, away) != away) operation.says = Says::unknown;
}

void Context::tell_how_long(Operation& operation) {
  const std::int64_t began_ns = std::exchange(operation.began_ns, 0);
  if (began_ns != 0)
    operation.group->nearness[std::size_t(operation.kind)].ended(now_ns() - began_ns, operation.stays_away);
}

// The plan of a call whose ranks reach nobody's buffers.
void Context::take_plain(Operation& operation) {
  const std::shared_ptr<const Plan>& plain = operation.plans->at(Reach::none);
  if (operation.plan != plain) operation.plan = plain;
  operation.reach = Reach::none;
  if (operation.placed != 0) operation.leave_places();
}

void Context::announce(Operation& operation) {
  Group& group = *operation.group;
  operation.says = Says::unknown;
  operation.says_at = line_version(operation);
  const auto said = [&](const void* address, std::size_t bytes) -> AnnouncedBuffer {
    if (address == nullptr || bytes == 0) return {};
    const transport::RegionSpot spot = regions_.own(address, bytes);
    return {reinterpret_cast<std::uintptr_t>(address), spot.region, spot.offset};
  };
  Announced own{said(operation.own_input(), operation.input_bytes), said(operation.output, operation.output_bytes)};
  const bool lacks = operation.stays_away || (lacks_regions(operation, own) &&
                                              (staging_ == Nearness::Wish::always || !is_read_instead(operation, own)));
  if (lacks && (operation.stays_away || operation.plans->reads_on_trial))
    own.input.region = own.output.region = AnnouncedBuffer::kAway;
  const bool may_stage = lacks && may_stage_early(operation);
  if (may_stage && stages_apart(operation)) {
    operation.says = Says::staged;
  } else if (lacks && may_publish_payload(operation)) {
    take_plain(operation);
    prepare_exchange(group, operation);
    operation.says = Says::payload;
  } else if (lacks && may_send_early(operation)) {
    take_plain(operation);
    operation.says = Says::sends;
  } else {
    operation.announced.resize(std::size_t(group.size()));
    operation.announces_as_before = std::exchange(operation.announced[std::size_t(group.rank)], own) == own;
    operation.says = Says::buffers;
  }
  say(operation);
  // Only until the next call finds its place apart again.
  if (may_stage && operation.says == Says::buffers) operation.says = Says::unknown;
}

// As the last call with these buffers did, if that is known to hold still.
bool Context::says_again(Operation& operation) {
  if (operation.says == Says::unknown || operation.says_at != line_version(operation)) return false;
  if (operation.says == Says::staged && !stages_apart(operation)) return false;
  operation.announces_as_before = true;
  say(operation);
  return true;
}

void Context::say(Operation& operation) {
  Group& group = *operation.group;
  const auto publish = [&](const std::byte* payload, std::size_t bytes, int needs = Board::kAll) {
    group.board.publish(payload, bytes, line_digest(operation), operation.sequence, needs);
  };
  const std::byte* const why = operation.stays_away ? kFar : kUnreachable;
  switch (operation.says) {
    case Says::payload: return publish(operation.exchange.from, operation.exchange.bytes);
    case Says::staged: stage_early(operation); return publish(why, kStagedBytes);
    case Says::sends: return publish(why, kSendsBytes, Board::kNobody);
    default:
      // From here on: who comes late finds these lines, and may begin although this rank has given up.
      operation.exposed = true;
      return publish(reinterpret_cast<const std::byte*>(&operation.announced[std::size_t(group.rank)]),
                     sizeof(Announced));
  }
}

// Where the lines alone tell how a call goes on: the step of its plan that is next. kNotTold: it takes more than that.
std::uint32_t Context::told_by_lines(Operation& operation) {
  Group& group = *operation.group;
  const auto hear_of_it = [&] {
    group.nearness[std::size_t(operation.kind)].hear(operation.count * operation.element_bytes);
  };
  if (sends_at_once(operation)) {
    if (operation.says == Says::buffers && any_says_far(group)) hear_of_it();
    take_plain(operation);
    operation.exposed = false;  // nobody goes there
    return 0;
  }
  if (const int payloads = published_payloads(operation); payloads > 0) {
    // Of memory that is far, or in no region: either way this rank's is not read.
    if (payloads < group.size() && operation.says == Says::buffers) hear_of_it();
    if (payloads < group.size()) return kNotTold;
    take_lines(group, operation);
    return 1;
  }
  if (const int staged = staged_early(operation); staged > 0) {
    if (operation.says == Says::buffers && any_says_far(group)) hear_of_it();
    return staged < group.size() ? kNotTold : operation.meet_step + 1;
  }
  bool as_before = operation.announces_as_before;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank) continue;  // the others are loading that line
    Announced said;
    std::memcpy(&said, group.board.payload(rank, sizeof said), sizeof said);
    as_before = std::exchange(operation.announced[std::size_t(rank)], said) == said && as_before;
  }
  if (as_before && operation.placed == group.settlings) return 0;
  operation.leave_places();
  return kNotTold;
}

// The same where this rank has said what it said before: so have the others, nearly always.
std::uint32_t Context::told_again(Operation& operation) {
  const Group& group = *operation.group;
  const Board& board = group.board;
  const Says says = operation.says;
  if (says == Says::sends) return 0;
  bool same = says != Says::buffers || operation.placed == group.settlings;
  for (int peer = 0; peer < group.size() && same; ++peer) {
    if (peer == group.rank) continue;  // the others are loading that line
    same = is_as_long(says, board.payload_bytes(peer)) &&
           (says != Says::buffers || std::memcmp(&operation.announced[std::size_t(peer)],
                                                 board.payload(peer, sizeof(Announced)), sizeof(Announced)) == 0);
  }
  if (!same) return told_by_lines(operation);
  if (says == Says::buffers) return 0;
  if (says == Says::staged) return operation.meet_step + 1;
  take_lines(group, operation);
  return 1;
}

}  // namespace anello::executor
