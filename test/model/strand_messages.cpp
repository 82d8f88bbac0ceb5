#include "model/strand_player.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace anello::model {
namespace {

constexpr std::size_t kEagerBytes = 4096;
// What a sender of small messages may count on to be buffered.
constexpr std::size_t kBuffered = 128 * 1024;

}  // namespace

anello_message_t StrandPlayer::look(Taking taking, int source, int tag, anello_comm_t comm, anello_status_t* status) {
  anello_message_t message = ANELLO_MESSAGE_NULL;
  *status = kNoStatus;
  anello_result_t result = ANELLO_OK;
  int flag = 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms_);
  do {
    if (taking == Taking::probe) result = anello_probe(source, tag, comm, status);
    if (taking == Taking::mprobe) result = anello_mprobe(source, tag, comm, &message, status);
    if (taking == Taking::iprobe) result = anello_iprobe(source, tag, comm, &flag, status);
    if (taking == Taking::improbe) result = anello_improbe(source, tag, comm, &flag, &message, status);
    need_ok(result, "the probe", comm);
    need(flag != 0 || std::chrono::steady_clock::now() < end, "the probe finds no message");
    if (flag == 0) std::this_thread::yield();
  } while (flag == 0);
  seen(*status);
  const bool matched = taking == Taking::mprobe || taking == Taking::improbe;
  need((message != ANELLO_MESSAGE_NULL) == matched, "the probe gives no message");
  return message;
}

void StrandPlayer::receive(Key key, int round, const Step& step, std::size_t which, const Role& role, Form form,
                           anello_comm_t comm) {
  const Receive& wanted = step.receives[which];
  const Message& sent = step.messages[wanted.message];
  const auto make = [&] { return Part::of_receive(step, which); };
  if (role.taking == Taking::recv) return post(key, round, form, comm, make);
  anello_status_t status;
  anello_message_t message =
      look(role.taking, wanted.any_source ? ANELLO_ANY_SOURCE : sent.from, wanted.tag, comm, &status);
  need(status.source == sent.from && status.tag == sent.tag && status.count == sent.count,
       "the probe tells of source " + std::to_string(status.source) + ", tag " + std::to_string(status.tag) +
           ", count " + std::to_string(status.count) + ", not of source " + std::to_string(sent.from) + ", tag " +
           std::to_string(sent.tag) + ", count " + std::to_string(sent.count));
  post(key, round, form, comm, make, message != ANELLO_MESSAGE_NULL ? &message : nullptr);
  need(message == ANELLO_MESSAGE_NULL, "the message's handle is still there");
}

void StrandPlayer::message(const Turn& turn, const Step& step, int rank, anello_comm_t comm) {
  const Message& sent = step.messages[0];
  const Role& role = step.roles[std::size_t(rank)];
  if (rank == sent.from) post({turn.step, 0}, turn.round, role.form, comm, [&] { return Part::of_send(step, 0); });
  if (rank == sent.to) receive({turn.step, 1}, turn.round, step, 0, role, role.form, comm);
}

void StrandPlayer::burst(const Step& step, int rank, anello_comm_t comm) {
  const Role& role = step.roles[std::size_t(rank)];
  if (rank == step.messages[0].from) send_all(step, rank, role, comm);
  if (rank != step.messages[0].to) return;
  for (std::size_t r = 0; r < step.receives.size(); ++r) receive({}, 0, step, r, role, role.form, comm);
}

void StrandPlayer::send_all(const Step& step, int rank, const Role& role, anello_comm_t comm) {
  // Sends of an earlier burst that nobody has received may fill all that a receiver keeps.
  std::size_t buffered = pending_.empty() ? 0 : kBuffered;
  for (std::size_t m = 0; m < step.messages.size(); ++m) {
    if (step.messages[m].from != rank) continue;
    const std::size_t bytes = step.messages[m].count * anello_dtype_size(step.dtype);
    buffered += bytes + 64;
    const bool blocks = role.form == Form::blocking && bytes <= kEagerBytes && buffered <= kBuffered;
    post({}, 0, blocks ? Form::blocking : Form::nonblocking, comm, [&] { return Part::of_send(step, m); });
  }
}

void StrandPlayer::crowd(const Step& step, int rank, anello_comm_t comm) {
  const Role& role = step.roles[std::size_t(rank)];
  send_all(step, rank, role, comm);
  if (rank == step.messages[0].to) take_from_any(step, role, comm);
  // Where the tag is not the step's own, nobody's later message may come before.
  if (step.receives[0].tag == ANELLO_ANY_TAG) need_ok(anello_barrier(comm), "the crowd's barrier", comm);
}

void StrandPlayer::take_from_any(const Step& step, const Role& role, anello_comm_t comm) {
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<anello_status_t> statuses(step.receives.size(), kNoStatus);
  std::vector<anello_request_t> requests;
  for (std::size_t r = 0; r < step.receives.size(); ++r) {
    parts.push_back(Part::of_receive(step, r));
    parts[r]->fill(0);
    anello_call_t call = parts[r]->call();
    anello_message_t message = ANELLO_MESSAGE_NULL;
    if (role.taking != Taking::recv) {
      anello_status_t status;
      message = look(role.taking, call.peer, call.tag, comm, &status);
      call.peer = status.source;
      call.tag = status.tag;
    }
    requests.push_back(ANELLO_REQUEST_NULL);
    anello_result_t result;
    const bool waits = role.form == Form::blocking;
    if (message != ANELLO_MESSAGE_NULL) {
      result = waits ? anello_mrecv(call.recvbuf, call.count, call.dtype, &message, &statuses[r])
                     : anello_imrecv(call.recvbuf, call.count, call.dtype, &message, &requests[r]);
    } else {
      result = invoke(call, waits ? Form::blocking : Form::nonblocking, comm, &requests[r], &statuses[r]);
    }
    need_ok(result, "receive " + std::to_string(r) + " from any", comm);
  }
  if (role.form != Form::blocking) {
    need_ok(anello_wait_all(requests.size(), requests.data(), statuses.data()), "the receives from any", comm);
  }
  std::vector<std::size_t> next(program_.comms[std::size_t(step.comm)].members.size(), 0);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    seen(statuses[r]);
    const int source = statuses[r].source;
    need(source >= 0 && std::size_t(source) < next.size(), "a message is from " + std::to_string(source));
    std::size_t& m = next[std::size_t(source)];
    while (m < step.messages.size() && step.messages[m].from != source) ++m;
    need(m < step.messages.size(), "rank " + std::to_string(source) + " has sent more than it should");
    parts[r]->came(m++);
    try {
      parts[r]->check(statuses[r]);
    } catch (const Wrong& wrong) {
      throw Wrong("receive " + std::to_string(r) + " from any, message " + std::to_string(m - 1) + ": " + wrong.what());
    }
  }
}

namespace {

// The send and the receive at once, to the end.
anello_result_t exchange(const Role& role, const anello_call_t& send, const anello_call_t& receive, anello_comm_t comm,
                         anello_status_t* status) {
  anello_request_t request = ANELLO_REQUEST_NULL;
  const auto made_by = [&](auto* function, auto* last) {
    return function(send.sendbuf, send.count, send.peer, send.tag, receive.recvbuf, receive.count, receive.peer,
                    receive.tag, send.dtype, comm, last);
  };
  if (role.form == Form::blocking) {
    if (role.grouped) anello_group_begin();
    const anello_result_t result = made_by(anello_sendrecv, status);
    return role.grouped ? std::max(result, anello_group_end()) : result;
  }
  if (role.form == Form::nonblocking) {
    const anello_result_t posted = made_by(anello_isendrecv, &request);
    return posted == ANELLO_OK ? anello_wait(&request, status) : posted;
  }
  anello_result_t result = made_by(anello_sendrecv_init, &request);
  if (result == ANELLO_OK) result = anello_start(&request);
  int done = 0;
  while (result == ANELLO_OK && done == 0) result = anello_test(&request, &done, status);
  return std::max(result, anello_request_free(&request));
}

}  // namespace

void StrandPlayer::shift(const Step& step, int rank, anello_comm_t comm) {
  std::unique_ptr<Part> out, in;
  for (std::size_t m = 0; m < step.messages.size(); ++m) {
    if (step.messages[m].from == rank) out = Part::of_send(step, m);
    if (step.messages[m].to == rank) in = Part::of_receive(step, m);
  }
  if (out != nullptr) out->fill(0);
  if (in != nullptr) in->fill(0);
  anello_call_t send = ANELLO_CALL_INITIALIZER, receive = ANELLO_CALL_INITIALIZER;
  send.peer = receive.peer = ANELLO_RANK_NULL;
  send.dtype = step.dtype;
  if (out != nullptr) send = out->call();
  if (in != nullptr) receive = in->call();
  anello_status_t status = kNoStatus;
  need_ok(exchange(step.roles[std::size_t(rank)], send, receive, comm, &status), "sendrecv", comm);
  seen(status);
  if (out != nullptr) out->check(kNoStatus);
  if (in != nullptr) return in->check(status);
  need(status.source == ANELLO_RANK_NULL && status.tag == ANELLO_ANY_TAG && status.count == 0,
       "nobody's status is another");
}

void StrandPlayer::nobody(const Step& step, anello_comm_t comm) {
  Memory memory(step.count * anello_dtype_size(step.dtype), 3);
  const Bytes before = memory.image();
  anello_status_t status = kNoStatus;
  const auto is_nobody = [&] {
    need(status.source == ANELLO_RANK_NULL && status.tag == ANELLO_ANY_TAG && status.count == 0,
         "nobody's status is another");
    status = kNoStatus;
  };
  need_ok(anello_send(memory.data(), step.count, step.dtype, ANELLO_RANK_NULL, 1, comm), "send to nobody", comm);
  need_ok(anello_probe(ANELLO_RANK_NULL, 1, comm, &status), "probe of nobody", comm);
  is_nobody();
  need_ok(anello_recv(memory.data(), step.count, step.dtype, ANELLO_RANK_NULL, 1, comm, &status), "recv of nobody",
          comm);
  is_nobody();
  anello_request_t request = ANELLO_REQUEST_NULL;
  need_ok(anello_irecv(memory.data(), step.count, step.dtype, ANELLO_RANK_NULL, 1, comm, &request), "irecv of nobody",
          comm);
  need_ok(anello_wait(&request, &status), "wait for nobody", comm);
  is_nobody();
  need(memory.image() == before, "nobody has written");
}

}  // namespace anello::model
