// Messages: send and recv. A small message travels with its envelope and waits at the receiver, within the sender's
// credit; a large one begins with an RTS, and moves when its receive is posted (gets.h).
#include "base/clock.h"
#include "base/text.h"
#include "executor/activity.h"
#include "executor/kept_frames.h"
#include "executor/messages.h"
#include "executor/outcomes.h"
#include "executor/routes.h"
#include "executor/shadows.h"
#include "executor/step_gets.h"
#include "progress/driver.h"

#include <algorithm>
#include <cstring>

namespace anello::executor {

Messages::Messages(Parts& parts)
    : parts_(parts),
      job_(parts.job),
      driver_(parts.driver),
      frames_(parts.frames),
      activity_(parts.activity),
      routes_(parts.routes),
      gets_(parts.gets),
      outcomes_(parts.outcomes) {}

void Messages::post(Operation& operation) {
  operation.number = operation.group->next_number++;
  operation.state = Operation::State::active;
  operation.bytes = operation.count * operation.element_bytes;
  if (operation.peer == ANELLO_RANK_NULL) {
    operation.status = {ANELLO_RANK_NULL, ANELLO_ANY_TAG, 0};
    outcomes_.finish(operation);
  } else if (operation.kind == ANELLO_SEND) {
    note_begin(operation);
    post_send(operation);
  } else if (operation.kind == ANELLO_RECV) {
    note_begin(operation);
    post_receive(operation);
  } else {
    post_probe(operation);
  }
}

void Messages::post_send(Operation& operation) {
  Group& group = *operation.group;
  if (operation.peer != group.rank) {
    Flow& flow = group.flows.to(operation.peer);
    flow.route->pull_for_credit(flow, operation.bytes);
    if (group.error) return outcomes_.finish(operation, group.error);  // a frame that has just come in failed the group
    flow.unsent.push(&operation);
    routes_.want_to_send(flow);
    return;
  }
  if (Operation* receive = group.messages.match(group.rank, operation.tag)) {
    deliver(*receive, group.rank, operation.tag, short_dtype(operation.dtype), operation.input, operation.bytes);
    outcomes_.finish(operation);
    return;
  }
  Unexpected waiting;
  waiting.source = group.rank;
  waiting.tag = operation.tag;
  waiting.dtype = short_dtype(operation.dtype);
  waiting.bytes = operation.bytes;
  waiting.local = &operation;
  if (operation.bytes <= kEagerBytes) {
    // The API promises for small messages that a sender need not wait for its own receive.
    waiting.local = nullptr;
    waiting.eager = frames_.take({.bytes = static_cast<std::uint32_t>(operation.bytes)}, job_.rank());
    if (operation.bytes > 0) std::memcpy(waiting.eager->payload.data(), operation.input, operation.bytes);
    outcomes_.finish(operation);
  }
  keep_unexpected(group, waiting);
}

void Messages::post_receive(Operation& operation) {
  Group& group = *operation.group;
  if (operation.claim != 0) {
    const auto claimed = group.messages.take_claimed(operation.claim);
    if (claimed) return take(operation, *claimed);
    return outcomes_.finish(operation, Error(ANELLO_ERR_STATE, "the message of this receive has been received before"));
  }
  if (const auto message = group.messages.take(operation.pattern())) return take(operation, *message);
  group.messages.post_receive(&operation);
}

// Fills in the status. False: the message does not fit, and the receive has ended with an error.
bool Messages::fits(Operation& receive, int source, int tag, std::uint16_t dtype, std::size_t bytes) {
  const auto both = [&] {
    return text("rank ", source, " sent ", bytes / dtype_bytes(receive.dtype), " elements of ",
                dtype_name(long_dtype(dtype)), " with tag ", tag, ", rank ", receive.group->rank, " receives at most ",
                receive.count, " of ", dtype_name(receive.dtype), receive.label.quoted());
  };
  receive.status = {source, tag, bytes / receive.element_bytes};
  if (dtype != short_dtype(receive.dtype)) {
    outcomes_.finish(receive, Error(ANELLO_ERR_MISMATCH, both(), receive.group->ranks[std::size_t(source)]));
    return false;
  }
  if (bytes > receive.bytes) {
    outcomes_.finish(receive, Error(ANELLO_ERR_TRUNCATE, both(), receive.group->ranks[std::size_t(source)]));
    return false;
  }
  return true;
}

void Messages::deliver(Operation& receive, int source, int tag, std::uint16_t dtype, const std::byte* payload,
                       std::size_t bytes) {
  if (!fits(receive, source, tag, dtype, bytes)) return;
  if (bytes > 0) std::memcpy(receive.output, payload, bytes);
  outcomes_.finish(receive);
}

void Messages::take(Operation& receive, const Unexpected& message) {
  Group& group = *receive.group;
  if (message.local != nullptr) {
    deliver(receive, message.source, message.tag, message.dtype, message.local->input, message.bytes);
    outcomes_.finish(*message.local);
  } else if (message.eager != nullptr) {
    deliver(receive, message.source, message.tag, message.dtype, message.eager->payload.data(), message.bytes);
    if (message.source != group.rank) {
      Flow& flow = group.flows.to(message.source);
      flow.credit.eager.no_longer_keeps(message.bytes);
      parts_.kept.consumed_small(flow, message.bytes);
    }
    frames_.give_back(message.eager);
  } else {
    Flow& flow = group.flows.to(message.source);
    const bool fit = fits(receive, message.source, message.tag, message.dtype, message.bytes);
    if (!fit) return send_cts(flow, message.number, receive.number, Answer::done);
    receive.peer = message.source;
    receive.partner = message.number;
    receive.bytes = message.bytes;
    if (message.is_on_device)
      return get_from_device(flow, receive, message) ? outcomes_.finish(receive) : have_it_sent(flow, receive, {});
    receive.got_from = message.at;
    if (message.at && Gets::goes_to_device(flow, receive) && parts_.shadows.awaits_stream(receive)) return;
    get(flow, receive, message.at);
  }
}

void Messages::get(Flow& flow, Operation& receive, const transport::RemoteAddress& at) {
  Gets::Refusal refusal;
  switch (gets_.begin(flow, receive, at, &refusal)) {
    case Gets::Begun::pending: return;
    case Gets::Begun::done: return has_got(flow, receive);
    case Gets::Begun::refused: return have_it_sent(flow, receive, refusal);
  }
}

void Messages::stream_came(Operation& receive) {
  get(receive.group->flows.to(receive.peer), receive, receive.got_from);
}

// The receive has got its message out of the sender's buffer.
void Messages::has_got(Flow& flow, Operation& receive) {
  send_cts(flow, receive.partner, receive.number, Answer::done);
  outcomes_.finish(receive);
}

// Whether the receive's delivery will be a copy out of the sender's device memory. A key that is not here yet is
// requested for the next message.
bool Messages::get_from_device(const Flow& flow, Operation& receive, const Unexpected& message) {
  const Group& group = *flow.group;
  if (!message.at || receive.shadow == nullptr || receive.shadow->device_output == nullptr) return false;
  transport::RemoteMemory& memory = routes_.device_memory(receive.shadow->device);
  const transport::RemotePeer peer = routes_.remote_peer(group, flow.peer);
  if (memory.prepare(peer, message.at.key) != transport::RemoteMemory::State::ready) return false;
  if (!group.board.allows_gets(flow.peer)) return false;
  Shadow::Direct& direct = receive.shadow->direct;
  direct.from = memory.map(peer, message.at, message.bytes, &direct.kept);
  return direct.from != nullptr;
}

bool Messages::has_got_from_device(Operation& receive) {
  Group& group = *receive.group;
  Flow& flow = group.flows.to(receive.peer);
  if (!group.board.allows_gets(flow.peer)) return false;
  ++group.on_devices;
  send_cts(flow, receive.partner, receive.number, Answer::done);
  return true;
}

void Messages::data_came(Operation& send) {
  Flow& flow = send.group->flows.to(send.peer);
  flow.cleared.push(&send);
  routes_.want_to_send(flow);
}

void Messages::pieces_came(Operation& send) {
  ++send.movement;
  routes_.want_to_send(send.group->flows.to(send.peer));
}

// Has the sender send the message that the receive has taken.
void Messages::have_it_sent(Flow& flow, Operation& receive, Gets::Refusal refusal) {
  send_cts(flow, receive.partner, receive.number, refusal.answer, refusal.messages);
  if (receive.bytes == 0) {
    outcomes_.finish(receive);  // its sender lacked only credit; no payload follows
  } else {
    flow.group->matched.push(&receive);
  }
}

bool Messages::move() {
  bool moved = gets_.work();
  // Then other work has its turn: a message may be as long as it likes.
  constexpr int kPieces = 2;
  int pieces = 0;
  while (pieces < kPieces) {
    const std::optional<Gets::Ended> ended = gets_.take_ended();
    if (!ended) break;
    moved = true;
    if (ended->piece != nullptr) {
      ++pieces;
      StepPiece& piece = *ended->piece;
      outcomes_.with_memory(*piece.of->lane->flow->group, [&] { parts_.step_gets.piece_ended(piece, ended->error); });
      continue;
    }
    Operation& receive = *ended->receive;
    Flow& flow = receive.group->flows.to(receive.peer);
    ended->error == 0 ? has_got(flow, receive) : have_it_sent(flow, receive, {});
  }
  parts_.step_gets.serve_waiting();
  return moved;
}

// Answers the sender's RTS.
void Messages::send_cts(Flow& flow, std::uint32_t sender_number, std::uint32_t receiver_number, Answer answer,
                        std::uint32_t messages) {
  transport::FrameHeader header;
  header.kind = static_cast<std::uint16_t>(FrameKind::cts);
  header.communicator = flow.group->id;
  header.sequence = sender_number;
  header.argument = receiver_number;
  header.flags = static_cast<std::uint16_t>(answer);
  header.tag = messages;
  flow.notes.push_back(header);
  routes_.want_to_send(flow);
}

bool Messages::known_type(Flow& flow, const transport::FrameHeader& header) {
  if (dtype_bytes(long_dtype(header.flags)) != 0) return true;
  const int world = flow.group->ranks[std::size_t(flow.peer)];
  outcomes_.fail(*flow.group,
                 Error(ANELLO_ERR_CORRUPT,
                       text(job_.describe(world), " sent a message of no data type (", header.flags, ")"), world),
                 true);
  return false;
}

bool Messages::takes_eager(Flow& flow, const transport::FrameHeader& header, Operation*& into) {
  Group& group = *flow.group;
  if (!known_type(flow, header)) return true;
  const int tag = static_cast<int>(header.tag);
  Operation* receive = group.messages.match(flow.peer, tag);
  if (receive == nullptr) return false;
  if (!fits(*receive, flow.peer, tag, header.flags, header.bytes)) return true;
  receive->peer = flow.peer;
  receive->bytes = header.bytes;
  group.matched.push(receive);
  into = receive;
  return true;
}

void Messages::on_eager(Flow& flow, EarlyFrame* frame) {
  Group& group = *flow.group;
  if (!known_type(flow, frame->header)) return frames_.give_back(frame);
  const int tag = static_cast<int>(frame->header.tag);
  if (Operation* receive = group.messages.match(flow.peer, tag)) {
    const std::size_t bytes = frame->header.bytes;
    deliver(*receive, flow.peer, tag, frame->header.flags, frame->payload.data(), bytes);
    frames_.give_back(frame);
    flow.credit.eager.no_longer_keeps(bytes);
    parts_.kept.consumed_small(flow, bytes);
    return;
  }
  Unexpected message;
  message.source = flow.peer;
  message.tag = tag;
  message.dtype = frame->header.flags;
  message.bytes = frame->header.bytes;
  message.eager = frame;
  keep_unexpected(group, message);
}

void Messages::on_rts(Flow& flow, const transport::FrameHeader& header, const transport::RemoteAddress& at) {
  Group& group = *flow.group;
  if (!known_type(flow, header)) return;
  Unexpected message;
  message.source = flow.peer;
  message.tag = static_cast<int>(header.tag);
  message.dtype = header.flags;
  message.at = at;
  message.is_on_device = is_rts_on_device(header);
  message.bytes = std::size_t(header.argument);
  message.number = header.sequence;
  if (has_address(header) && (message.is_on_device ? !group.board : flow.least_got == SIZE_MAX)) {
    return outcomes_.fail(group, Gets::shares_no_memory(job_, group.ranks[std::size_t(flow.peer)]), true);
  }
  if (group.messages.messages() >= kMaxUnexpected) {
    outcomes_.fail(group,
                   Error(ANELLO_ERR_RESOURCE,
                         text("more than ", kMaxUnexpected, " messages wait on rank ", group.rank,
                              " for a receive, the last one from ", job_.describe(group.ranks[std::size_t(flow.peer)]),
                              " with tag ", message.tag, ": post receives earlier")),
                   true);
    return;
  }
  if (Operation* receive = group.messages.match(flow.peer, message.tag)) {
    take(*receive, message);
  } else {
    keep_unexpected(group, message);
  }
}

void Messages::on_cts(Flow& flow, const transport::FrameHeader& header) {
  for (Operation* send = flow.requested.front(); send != nullptr; send = OperationFifo::after(send)) {
    if (send->number != header.sequence) continue;
    flow.requested.remove(send);
    Gets::answered(*send);
    ++send->movement;
    const auto answer = static_cast<Answer>(header.flags);
    if (answer == Answer::send_far) Gets::pause(flow, send->bytes, header.tag);
    if (answer == Answer::send_closed) flow.tells_addresses = false;
    if (answer == Answer::done || send->bytes == 0) {
      if (send->is_on_device()) ++flow.group->on_devices;
      outcomes_.finish(*send);  // if the message did not fit, the receiver's caller knows why
    } else if (send->is_on_device()) {
      send->partner = static_cast<std::uint32_t>(header.argument);
      fetch_for_peer(*send);
    } else {
      send->partner = static_cast<std::uint32_t>(header.argument);
      flow.cleared.push(send);
      routes_.want_to_send(flow);
    }
    return;
  }
}

void Messages::fetch_for_peer(Operation& send) {
  try {
    parts_.shadows.move_to_host(send);
  } catch (const Error& of_device) {
    outcomes_.fail(*send.group, job_.own_error(of_device), true);
    outcomes_.finish(send, send.group->error);  // it was in no list
  }
}

Operation* Messages::find_cleared(Group& group, std::uint32_t number) {
  for (Operation* receive = group.matched.front(); receive != nullptr; receive = OperationFifo::after(receive)) {
    if (receive->number == number) return receive;
  }
  return nullptr;
}

// Gets end first: they may store into memory that a send takes back from the peers, and no adapter could go on there.
void Messages::end_all(Group& group, const Error& error) {
  while (Operation* operation = gets_.withdraw_any(group)) outcomes_.finish(*operation, error);
  for (Flow& flow : group.flows) {
    for (OperationFifo* list : {&flow.unsent, &flow.requested, &flow.cleared}) {
      while (Operation* operation = list->pop()) {
        Gets::take_back(flow, *operation);
        outcomes_.finish(*operation, error);
      }
    }
  }
  while (Operation* operation = group.messages.withdraw_any()) outcomes_.finish(*operation, error);
  while (Operation* operation = group.matched.pop()) outcomes_.finish(*operation, error);
  group.messages.each_message([&](const Unexpected& message) {
    if (message.eager != nullptr) frames_.give_back(message.eager);
    if (message.local != nullptr) outcomes_.finish(*message.local, error);
  });
  group.messages.forget_messages();
}

}  // namespace anello::executor
