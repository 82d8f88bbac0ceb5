#pragma once
// Plays a strand: what one thread of one rank does of a program. strand_player.cpp has its turns and its communicators,
// strand_messages.cpp its messages.
#include "model/calls.h"
#include "model/pending.h"

#include <map>
#include <memory>

namespace anello::model {

inline void need(bool holds, const std::string& what) {
  if (!holds) throw Wrong(what);
}
inline void need_ok(anello_result_t result, const std::string& what, anello_comm_t comm) {
  if (result != ANELLO_OK) throw Wrong(what + " gives " + said(result, comm));
}

class StrandPlayer {
 public:
  // comms: of the program, by index, this rank's; each strand has its own of them.
  StrandPlayer(const Program& program, int rank, std::size_t strand, std::vector<anello_comm_t>& comms, int timeout_ms)
      : program_(program),
        strand_(program.strands[strand]),
        me_(rank),
        comms_(comms),
        timeout_ms_(timeout_ms),
        pending_(timeout_ms),
        random_(mix(program.seed, 10'000 + std::uint64_t(rank) * 10 + strand)) {}

  // Throws Wrong.
  void play();

 private:
  void take(const Turn& turn, const Step& step, int rank);

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
  void begin(Part& part, anello_comm_t comm, anello_message_t* message);
  void free(Part& part);

  // Looks at the message before it is received, in the role's way. A matched one is handed back.
  anello_message_t look(Taking taking, int source, int tag, anello_comm_t comm, anello_status_t* status);
  void receive(Key key, int round, const Step& step, std::size_t which, const Role& role, Form form,
               anello_comm_t comm);
  void message(const Turn& turn, const Step& step, int rank, anello_comm_t comm);
  void burst(const Step& step, int rank, anello_comm_t comm);
  // Those of this rank; it waits for none that its receiver may take later than another.
  void send_all(const Step& step, int rank, const Role& role, anello_comm_t comm);
  void crowd(const Step& step, int rank, anello_comm_t comm);
  // Which message comes when is open; those of one sender come in its order.
  void take_from_any(const Step& step, const Role& role, anello_comm_t comm);
  void shift(const Step& step, int rank, anello_comm_t comm);
  void nobody(const Step& step, anello_comm_t comm);

  void make(const Step& step, int rank, anello_comm_t comm);
  void make_subset(const Step& step, int rank, anello_comm_t comm);
  // A new communicator, or none, is the program's of this index.
  void take_over(int index, anello_comm_t made);
  void destroy(const Step& step);

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

}  // namespace anello::model
