#include "model/player.h"

#include "model/calls.h"
#include "model/deliberate.h"
#include "model/pending.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace anello::model {
namespace {

constexpr std::size_t kEagerBytes = 4096;
// What a sender of small messages may count on to be buffered.
constexpr std::size_t kBuffered = 128 * 1024;

void need(bool holds, const std::string& what) {
  if (!holds) throw Wrong(what);
}
void need_ok(anello_result_t result, const std::string& what, anello_comm_t comm) {
  if (result != ANELLO_OK) throw Wrong(what + " gives " + said(result, comm));
}

class Player {
 public:
  Player(const Program& program, int rank, std::size_t strand, std::vector<anello_comm_t>& comms, int timeout_ms)
      : program_(program),
        strand_(program.strands[strand]),
        me_(rank),
        comms_(comms),
        timeout_ms_(timeout_ms),
        pending_(timeout_ms),
        random_(mix(program.seed, 10'000 + std::uint64_t(rank) * 10 + strand)) {}

  void play() {
    for (const Turn& turn : strand_.turns) {
      const Step& step = strand_.steps[turn.step];
      const int rank = rank_in(program_.comms[std::size_t(step.comm)], me_);
      if (rank < 0) continue;
      try {
        take(turn, step, rank);
      } catch (const Wrong& wrong) {
        throw Wrong("step " + std::to_string(step.id) + (turn.round > 0 ? ", round " + std::to_string(turn.round) : "") + ": " +
                    wrong.what());
      }
    }
    try {
      pending_.complete_all(random_);
      for (auto& [key, part] : persistent_) free(*part);
    } catch (const Wrong& wrong) {
      throw Wrong(std::string("at the end: ") + wrong.what());
    }
  }

 private:
  void take(const Turn& turn, const Step& step, int rank) {
    const Role& role = step.roles[std::size_t(rank)];
    const anello_comm_t comm = comms_[std::size_t(step.comm)];
    const int size = int(program_.comms[std::size_t(step.comm)].members.size());
    grouped_ = role.grouped;
    if (random_.one_in(3)) pending_.complete_some(random_);
    if (role.sleep_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(role.sleep_us));
    switch (step.action) {
      case Action::collective:
        post({turn.step, 0}, turn.round, role.form, comm, [&] { return Part::of_collective(step, rank, size); });
        break;
      case Action::message: message(turn, step, rank, comm); break;
      case Action::burst: burst(step, rank, comm); break;
      case Action::crowd: crowd(step, rank, comm); break;
      case Action::shift: shift(step, rank, comm); break;
      case Action::nobody: nobody(step, comm); break;
      case Action::dup:
      case Action::split: make(step, rank, comm); break;
      case Action::subset: make_subset(step, rank, comm); break;
      case Action::destroy: destroy(step); break;
      case Action::error:
        pending_.complete_all(random_);
        make_error(step, rank, size, comm);
        break;
    }
  }

  // ---- Posting ----

  using Key = std::pair<std::size_t, int>;  // step, and which of its parts

  // Posts and, where it blocks, checks. A persistent part is made in its first round.
  template <class Make>
  void post(Key key, int round, Form form, anello_comm_t comm, Make&& make, anello_message_t* message = nullptr) {
    if (form != Form::persistent || message != nullptr) {
      std::unique_ptr<Part> part = make();
      part->form = form;
      part->grouped = grouped_;
      part->fill(round);
      begin(*part, comm, message);
      if (part->active) kept_.push_back(std::move(part));
      return;
    }
    std::unique_ptr<Part>& part = persistent_[key];
    if (part == nullptr) {
      part = make();
      part->form = form;
      part->fill(round);
      need_ok(invoke(part->call(), form, comm, &part->request, nullptr), "init", comm);
      part->spoil_arrays();
    }
    pending_.complete(part.get());
    part->fill(round);
    if (random_.one_in(4)) need_ok(anello_wait(&part->request, nullptr), "wait for an inactive request", comm);
    need_ok(random_.one_in(2) ? anello_start(&part->request) : anello_start_all(1, &part->request), "start", comm);
    part->active = true;
    pending_.add(part.get());
  }

  void begin(Part& part, anello_comm_t comm, anello_message_t* message) {
    const anello_call_t call = part.call();
    anello_status_t status = kNoStatus;
    anello_result_t result;
    if (part.form == Form::blocking) {
      if (part.grouped) need_ok(anello_group_begin(), "group_begin", comm);
      result = message != nullptr ? anello_mrecv(call.recvbuf, call.count, call.dtype, message, &status)
                                  : invoke(call, part.form, comm, nullptr, &status);
      if (part.grouped) {
        need_ok(result, "posting it in a group", comm);
        result = anello_group_end();
      }
      if (result != part.expected_result()) {
        throw Wrong("gives " + said(result, comm) + ", not " + anello_result_name(part.expected_result()));
      }
      seen(status);
      return part.check(status);
    }
    if (message != nullptr) part.form = Form::nonblocking;
    result = message != nullptr ? anello_imrecv(call.recvbuf, call.count, call.dtype, message, &part.request)
                                : invoke(call, part.form, comm, &part.request, nullptr);
    need_ok(result, "posting it", comm);
    part.spoil_arrays();
    part.active = true;
    pending_.add(&part);
  }

  void free(Part& part) {
    if (part.request == ANELLO_REQUEST_NULL) return;
    need_ok(anello_request_free(&part.request), "request_free", ANELLO_COMM_NULL);
    need(part.request == ANELLO_REQUEST_NULL, "request_free leaves the request");
  }

  // ---- Messages ----

  // Looks at the message before it is received, in the role's way. A matched one is handed back.
  anello_message_t look(Taking taking, int source, int tag, anello_comm_t comm, anello_status_t* status) {
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

  void receive(Key key, int round, const Step& step, std::size_t which, const Role& role, Form form, anello_comm_t comm) {
    const Receive& wanted = step.receives[which];
    const Message& sent = step.messages[wanted.message];
    const auto make = [&] { return Part::of_receive(step, which); };
    if (role.taking == Taking::recv) return post(key, round, form, comm, make);
    anello_status_t status;
    anello_message_t message = look(role.taking, wanted.any_source ? ANELLO_ANY_SOURCE : sent.from, wanted.tag, comm, &status);
    need(status.source == sent.from && status.tag == sent.tag && status.count == sent.count,
         "the probe tells of source " + std::to_string(status.source) + ", tag " + std::to_string(status.tag) + ", count " +
             std::to_string(status.count) + ", not of source " + std::to_string(sent.from) + ", tag " + std::to_string(sent.tag) +
             ", count " + std::to_string(sent.count));
    post(key, round, form, comm, make, message != ANELLO_MESSAGE_NULL ? &message : nullptr);
    need(message == ANELLO_MESSAGE_NULL, "the message's handle is still there");
  }

  void message(const Turn& turn, const Step& step, int rank, anello_comm_t comm) {
    const Message& sent = step.messages[0];
    const Role& role = step.roles[std::size_t(rank)];
    if (rank == sent.from) post({turn.step, 0}, turn.round, role.form, comm, [&] { return Part::of_send(step, 0); });
    if (rank == sent.to) receive({turn.step, 1}, turn.round, step, 0, role, role.form, comm);
  }

  void burst(const Step& step, int rank, anello_comm_t comm) {
    const Role& role = step.roles[std::size_t(rank)];
    if (rank == step.messages[0].from) send_all(step, rank, role, comm);
    if (rank != step.messages[0].to) return;
    for (std::size_t r = 0; r < step.receives.size(); ++r) receive({}, 0, step, r, role, role.form, comm);
  }

  // Those of this rank; it waits for none that its receiver may take later than another.
  void send_all(const Step& step, int rank, const Role& role, anello_comm_t comm) {
    std::size_t buffered = 0;
    for (std::size_t m = 0; m < step.messages.size(); ++m) {
      if (step.messages[m].from != rank) continue;
      const std::size_t bytes = step.messages[m].count * anello_dtype_size(step.dtype);
      buffered += bytes + 64;
      const bool blocks = role.form == Form::blocking && bytes <= kEagerBytes && buffered <= kBuffered;
      post({}, 0, blocks ? Form::blocking : Form::nonblocking, comm, [&] { return Part::of_send(step, m); });
    }
  }

  void crowd(const Step& step, int rank, anello_comm_t comm) {
    const Role& role = step.roles[std::size_t(rank)];
    send_all(step, rank, role, comm);
    if (rank == step.messages[0].to) take_from_any(step, role, comm);
    // Where the tag is not the step's own, nobody's later message may come before.
    if (step.receives[0].tag == ANELLO_ANY_TAG) need_ok(anello_barrier(comm), "the crowd's barrier", comm);
  }

  // Which message comes when is open; those of one sender come in its order.
  void take_from_any(const Step& step, const Role& role, anello_comm_t comm) {
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

  void shift(const Step& step, int rank, anello_comm_t comm) {
    std::unique_ptr<Part> out, in;
    int dest = ANELLO_RANK_NULL, source = ANELLO_RANK_NULL;
    for (std::size_t m = 0; m < step.messages.size(); ++m) {
      if (step.messages[m].from == rank) out = Part::of_send(step, m), dest = step.messages[m].to;
      if (step.messages[m].to == rank) in = Part::of_receive(step, m), source = step.messages[m].from;
    }
    if (out != nullptr) out->fill(0);
    if (in != nullptr) in->fill(0);
    anello_call_t send = ANELLO_CALL_INITIALIZER, receive = ANELLO_CALL_INITIALIZER;
    if (out != nullptr) send = out->call();
    if (in != nullptr) receive = in->call();
    anello_status_t status = kNoStatus;
    need_ok(anello_sendrecv(send.sendbuf, send.count, dest, send.tag, receive.recvbuf, receive.count, source, receive.tag,
                            step.dtype, comm, &status), "sendrecv", comm);
    seen(status);
    if (out != nullptr) out->check(kNoStatus);
    if (in != nullptr) return in->check(status);
    need(status.source == ANELLO_RANK_NULL && status.tag == ANELLO_ANY_TAG && status.count == 0, "nobody's status is another");
  }

  void nobody(const Step& step, anello_comm_t comm) {
    Memory memory(step.count * anello_dtype_size(step.dtype), 3);
    const Bytes before = memory.image();
    anello_status_t status = kNoStatus;
    const auto is_nobody = [&] {
      need(status.source == ANELLO_RANK_NULL && status.tag == ANELLO_ANY_TAG && status.count == 0, "nobody's status is another");
      status = kNoStatus;
    };
    need_ok(anello_send(memory.data(), step.count, step.dtype, ANELLO_RANK_NULL, 1, comm), "send to nobody", comm);
    need_ok(anello_probe(ANELLO_RANK_NULL, 1, comm, &status), "probe of nobody", comm);
    is_nobody();
    need_ok(anello_recv(memory.data(), step.count, step.dtype, ANELLO_RANK_NULL, 1, comm, &status), "recv of nobody", comm);
    is_nobody();
    anello_request_t request = ANELLO_REQUEST_NULL;
    need_ok(anello_irecv(memory.data(), step.count, step.dtype, ANELLO_RANK_NULL, 1, comm, &request), "irecv of nobody", comm);
    need_ok(anello_wait(&request, &status), "wait for nobody", comm);
    is_nobody();
    need(memory.image() == before, "nobody has written");
  }

  // ---- Communicators ----

  void make(const Step& step, int rank, anello_comm_t comm) {
    const Role& role = step.roles[std::size_t(rank)];
    anello_comm_t made = ANELLO_COMM_NULL;
    anello_request_t request = ANELLO_REQUEST_NULL;
    anello_result_t result;
    if (role.form == Form::nonblocking) {
      result = step.action == Action::dup ? anello_comm_idup(comm, &made, &request)
                                          : anello_comm_isplit(comm, role.color, role.key, &made, &request);
      if (result == ANELLO_OK) result = anello_wait(&request, nullptr);
    } else {
      result = step.action == Action::dup ? anello_comm_dup(comm, &made) : split(comm, role.color, role.key, &made);
    }
    need_ok(result, "it", comm);
    take_over(role.color < 0 ? -1 : step.results[std::size_t(role.color)], made);
  }

  void make_subset(const Step& step, int rank, anello_comm_t comm) {
    std::vector<int> ranks;
    if (step.results[0] < 0) return;
    for (const int member : program_.comms[std::size_t(step.results[0])].members) {
      ranks.push_back(rank_in(program_.comms[std::size_t(step.comm)], member));
    }
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) return;
    anello_comm_t made = ANELLO_COMM_NULL;
    need_ok(anello_comm_create_group(comm, int(ranks.size()), ranks.data(), step.id, &made), "create_group", comm);
    take_over(step.results[0], made);
  }

  // A new communicator, or none, is the program's of this index.
  void take_over(int index, anello_comm_t made) {
    need((made != ANELLO_COMM_NULL) == (index >= 0), "the new communicator is there or not as it should not");
    if (index < 0) return;
    const Comm& expected = program_.comms[std::size_t(index)];
    int new_rank = -1, new_size = -1;
    need_ok(anello_comm_rank(made, &new_rank), "comm_rank", made);
    need_ok(anello_comm_size(made, &new_size), "comm_size", made);
    need(new_rank == rank_in(expected, me_) && new_size == int(expected.members.size()),
         "this rank is " + std::to_string(new_rank) + " of " + std::to_string(new_size) + ", not " +
             std::to_string(rank_in(expected, me_)) + " of " + std::to_string(expected.members.size()));
    comms_[std::size_t(index)] = made;
  }

  void destroy(const Step& step) {
    pending_.complete_all(random_);
    anello_comm_t& comm = comms_[std::size_t(step.comm)];
    need_ok(anello_comm_destroy(comm), "destroy", ANELLO_COMM_NULL);
    int rank = -1;
    need(anello_comm_rank(comm, &rank) == ANELLO_ERR_STATE, "the destroyed communicator has a rank");
    comm = ANELLO_COMM_NULL;
  }

  const Program& program_;
  const Strand& strand_;
  int me_;
  std::vector<anello_comm_t>& comms_;  // of the program, by index; each strand has its own of them
  int timeout_ms_;
  std::vector<std::unique_ptr<Part>> kept_;
  std::map<Key, std::unique_ptr<Part>> persistent_;
  Pending pending_;
  Random random_;
  bool grouped_ = false;  // of the role in this turn
};

}  // namespace

void play(const Program& program, int job_rank, anello_comm_t world, int timeout_ms) {
  const auto found = std::find(program.order.begin(), program.order.end(), job_rank);
  const int rank = found == program.order.end() ? -1 : int(found - program.order.begin());
  anello_comm_t base = ANELLO_COMM_NULL;
  need_ok(anello_comm_split(world, rank < 0 ? ANELLO_UNDEFINED : 0, rank, &base), "the split of the job", world);
  if (rank < 0) return;
  std::vector<anello_comm_t> comms(program.comms.size(), ANELLO_COMM_NULL);
  for (std::size_t k = 0; k < program.strands.size(); ++k) need_ok(anello_comm_dup(base, &comms[k]), "the dup for a thread", base);
  std::mutex mutex;
  std::optional<Wrong> first;
  const auto strand = [&](std::size_t k) {
    try {
      Player(program, rank, k, comms, timeout_ms).play();
    } catch (const Wrong& wrong) {
      const std::lock_guard held(mutex);
      if (!first) first.emplace("rank " + std::to_string(rank) + ", " + wrong.what());
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < program.strands.size(); ++k) {
    if (program.one_after_another) {
      strand(k);
    } else {
      threads.emplace_back(strand, k);
    }
  }
  strand(0);
  for (std::thread& thread : threads) thread.join();
  if (first) throw Wrong(*first);
  for (const anello_comm_t comm : comms) need_ok(anello_comm_destroy(comm), "destroy", ANELLO_COMM_NULL);
  need_ok(anello_comm_destroy(base), "destroy", ANELLO_COMM_NULL);
}

}  // namespace anello::model
