#include "executor/gets.h"

#include "executor/activity.h"
#include "executor/routes.h"
#include "executor/step_gets.h"
#include "memory/buffer.h"
#include "progress/driver.h"

#include <algorithm>
#include <cerrno>
#include <new>

namespace anello::executor {

Gets::Gets(Parts& parts)
    : driver_(parts.driver),
      buffers_(parts.buffers),
      activity_(parts.activity),
      routes_(parts.routes),
      sharing_(parts.sharing),
      staging_(parts.staging) {}

void Gets::set_up(Flow& flow) const {
  flow.most_eager = most_eager(*flow.group, flow.peer);
  if (!meets_on_host(*flow.group, flow.peer)) {
    if (!is_far(*flow.group, flow.peer)) return;
    flow.far = routes_.far_memory_of(flow.group->ranks[std::size_t(flow.peer)]);
    // A get takes as many messages as the answer to an RTS without an address.
    flow.least_got = flow.most_eager + 1;
    flow.most_got = SIZE_MAX;
    return;
  }
  flow.least_got = driver_.spins() > 0 ? kLeastGet : kLeastGetShared;
  flow.reading = std::make_unique<memory::ReadPolicy>();
}

bool Gets::is_far(const Group& group, int peer) const {
  return !meets_on_host(group, peer) && routes_.far_memory_of(group.ranks[std::size_t(peer)]) != nullptr;
}

std::size_t Gets::most_eager(const Group& group, int peer) const {
  return meets_on_host(group, peer) && sharing_ > 1 ? kMostEagerShared : kMostEagerBytes;
}

// Whether the lane copies twice what a get copies once.
bool Gets::meets_on_host(const Group& group, int peer) const {
  const transport::RemoteMemory* const memory = routes_.memory_of(group, peer);
  return group.board && memory != nullptr && memory->spares_the_lane();
}

transport::RemoteMemory& Gets::memory_for(const Flow& flow) const {
  return flow.far != nullptr ? *flow.far : *routes_.memory_of(*flow.group, flow.peer);
}

// ---- The sender's side ----

transport::RemoteAddress Gets::offer(const Flow& flow, Operation& send) const {
  if (flow.far == nullptr) return address_to_tell(flow, send.input, send.bytes);
  if (!flow.may_get(send.bytes)) return {};
  memory::Buffer buffer;
  if (send.is_on_device()) {
    buffer = {const_cast<std::byte*>(send.input), send.bytes, send.shadow->space(), {}};
  } else {
    buffer = buffers_.find(send.input, send.bytes);
  }
  try {
    send.given_out.at = flow.far->give_out(routes_.remote_peer(*flow.group, flow.peer), buffer,
                                           transport::RemoteMemory::Use::gets, &send.given_out.kept);
  } catch (const std::bad_alloc&) {
    return {};  // it can be sent, and this may be another operation's turn
  }
  return send.given_out.at;
}

void Gets::take_back(const Flow& flow, Operation& send) {
  if (send.given_out.kept == nullptr) return;
  flow.far->take_back(send.given_out.at);
  send.given_out.kept.reset();
}

transport::RemoteAddress Gets::address_to_tell(const Flow& flow, const std::byte* payload, std::size_t bytes) const {
  if (!flow.may_get(bytes) || is_paused(flow, bytes)) return {};
  const transport::RemoteAddress at = transport::address_of(buffers_.find(payload, bytes));
  if (at.key != 0) return at;
  // A larger message goes through the ring, which keeps two processors busy.
  const bool may_be_read = flow.tells_addresses && staging_ != memory::ReadPolicy::Wish::always;
  if (!may_be_read || (driver_.spins() > 0 && !may_be_sent(bytes))) return {};
  return at;
}

bool Gets::is_paused(const Flow& flow, std::size_t bytes) const {
  if (!may_be_sent(bytes)) return false;
  return staging_ == memory::ReadPolicy::Wish::always || flow.sent_instead[memory::ReadPolicy::index_of(bytes)] > 0;
}

void Gets::note_going(Flow& flow, std::size_t bytes, bool has_address) const {
  std::uint32_t& left = flow.sent_instead[memory::ReadPolicy::index_of(bytes)];
  if (!has_address && left > 0 && may_be_sent(bytes)) --left;
}

void Gets::pause(Flow& flow, std::size_t bytes, std::uint32_t messages) {
  flow.sent_instead[memory::ReadPolicy::index_of(bytes)] = std::min(messages, memory::ReadPolicy::kMostPause);
}

// ---- The receiver's side ----

// Whether a message of this size is sent where that is faster.
bool Gets::may_be_sent(std::size_t bytes) const { return memory::ReadPolicy::concerns_message(bytes, sharing_); }

// The read policy's turn for the peer's next message. begins: its RTS is here.
memory::ReadPolicy::Turn Gets::turn_of(Flow& flow, std::size_t bytes, bool begins) const {
  if (flow.reading == nullptr || !may_be_sent(bytes) || staging_ == memory::ReadPolicy::Wish::never) return {};
  if (staging_ == memory::ReadPolicy::Wish::always) return {memory::ReadPolicy::Way::staged, false, false};
  return begins ? flow.reading->next(bytes) : flow.reading->peek(bytes);
}

Gets::Refusal Gets::refusal(Flow& flow, const transport::RemoteAddress& at, std::size_t bytes,
                            memory::ReadPolicy::Turn turn) const {
  if (turn.way == memory::ReadPolicy::Way::read) {
    const bool closed =
        at.key == 0 && routes_.prepare(*flow.group, flow.peer, 0) == transport::RemoteMemory::State::refused;
    return {closed ? Answer::send_closed : Answer::send, 0};
  }
  // Measured messages come with an address, so that this rank could get them.
  if (turn.measured) return {Answer::send, 0};
  if (staging_ == memory::ReadPolicy::Wish::always) return {Answer::send_far, memory::ReadPolicy::kMostPause};
  const std::uint32_t calls = flow.reading->unmeasured(bytes);
  flow.reading->skip(bytes, calls);
  return {calls > 0 ? Answer::send_far : Answer::send, calls};
}

// Whether this rank can get the peer's message: the key is ready, and the sender's group has not failed.
bool Gets::is_possible(const Flow& flow, const transport::RemoteAddress& at) const {
  const Group& group = *flow.group;
  return group.board && routes_.prepare(group, flow.peer, at.key) == transport::RemoteMemory::State::ready &&
         group.board.allows_gets(flow.peer);
}

// Whether the copy counts. If not, the sender's group has failed, and this one hears of it while it waits for the
// message.
bool Gets::counts(const Flow& flow, const transport::RemoteAddress& at, std::size_t bytes) const {
  Group& group = *flow.group;
  activity_.count_handled(bytes);
  if (flow.far != nullptr) {
    ++group.taken.rdma;
    return true;
  }
  if (!group.board.allows_gets(flow.peer)) return false;
  ++(at.key == 0 ? group.taken.read : group.taken.mapped);
  return true;
}

bool Gets::copy_now(const Flow& flow, const transport::RemoteAddress& at, std::byte* into, std::size_t bytes) const {
  transport::RemoteMemory& memory = *routes_.memory_of(*flow.group, flow.peer);
  return memory.get_now({routes_.remote_peer(*flow.group, flow.peer), at, into, bytes, 0}) == 0 &&
         counts(flow, at, bytes);
}

Gets::Begun Gets::begin(Flow& flow, Operation& receive, const transport::RemoteAddress& at, Refusal* refused) const {
  if (!at) return Begun::refused;
  if (flow.far != nullptr) {
    const auto state = flow.far->prepare(routes_.remote_peer(*flow.group, flow.peer), at.key);
    return state == transport::RemoteMemory::State::ready ? begin_get(flow, receive, at) : Begun::refused;
  }
  const memory::ReadPolicy::Turn turn = turn_of(flow, receive.bytes, true);
  if (turn.way == memory::ReadPolicy::Way::read && is_possible(flow, at)) {
    if (receive.bytes > kMostGetAtOnce) return begin_get(flow, receive, at);
    if (copy_now(flow, at, receive.output, receive.bytes)) return Begun::done;
  }
  *refused = refusal(flow, at, receive.bytes, turn);
  return Begun::refused;
}

Gets::Begun Gets::begin_get(Flow& flow, Operation& receive, const transport::RemoteAddress& at) const {
  transport::Transfer transfer{routes_.remote_peer(*flow.group, flow.peer), at, receive.output, receive.bytes,
                               reinterpret_cast<std::uintptr_t>(&receive)};
  if (goes_to_device(flow, receive)) {
    transfer.local = receive.shadow->device_output;
    transfer.space = receive.shadow->space();
  }
  receive.got_into = flow.far != nullptr ? buffers_.find(receive.output, receive.bytes).spot.region : 0;
  memory_for(flow).get(transfer);
  receive.got_from = at;
  flow.group->getting.push(&receive);
  return Begun::pending;
}

bool Gets::get_now(Flow& flow, const transport::RemoteAddress& at, std::byte* into, std::size_t bytes) const {
  if (!at || flow.far != nullptr || bytes > kMostGetAtOnce) return false;
  // A message that is not got takes its turn where it is answered, in begin().
  if (turn_of(flow, bytes, false).way != memory::ReadPolicy::Way::read || !is_possible(flow, at)) return false;
  turn_of(flow, bytes, true);
  return copy_now(flow, at, into, bytes);
}

Error Gets::shares_no_memory(const control::Job& job, int world) {
  return Error(ANELLO_ERR_CORRUPT,
               job.describe(world) + " sent the address of a message, and shares no memory with this rank", world);
}

// A piece that this rank's processor moves goes without the lock: other threads post meanwhile.
bool Gets::work() const {
  bool moved = false;
  for (transport::RemoteMemory* const memory : routes_.memories()) {
    if (!memory->is_pending() || !memory->begin_work()) continue;
    driver_.without_lock([memory] { memory->work(); });
    moved = true;
  }
  return moved;
}

std::optional<Gets::Ended> Gets::take_ended() const {
  for (transport::RemoteMemory* const memory : routes_.memories()) {
    if (!memory->is_pending()) continue;
    const std::optional<transport::Transferred> ended = memory->poll();
    if (!ended) continue;
    if (StepPiece* const piece = StepGets::piece_of(ended->token)) return Ended{nullptr, piece, ended->error};
    Operation& receive = *reinterpret_cast<Operation*>(ended->token);
    Flow& flow = receive.group->flows.to(receive.peer);
    flow.group->getting.remove(&receive);
    ++receive.movement;
    // If its region's pages were exchanged meanwhile (move_region), an adapter may have stored into the old ones.
    const bool is_there = flow.far == nullptr || goes_to_device(flow, receive) ||
                          buffers_.find(receive.output, receive.bytes).spot.region == receive.got_into;
    const bool good = ended->error == 0 && is_there && counts(flow, receive.got_from, receive.bytes);
    if (good && goes_to_device(flow, receive)) {
      receive.shadow->is_brought = true;
      ++flow.group->on_devices;
    }
    return Ended{&receive, nullptr, good ? 0 : EIO};
  }
  return {};
}

Operation* Gets::withdraw_any(Group& group) const {
  Operation* const receive = group.getting.pop();
  if (receive != nullptr) memory_for(group.flows.to(receive->peer)).withdraw(reinterpret_cast<std::uintptr_t>(receive));
  return receive;
}

}  // namespace anello::executor
