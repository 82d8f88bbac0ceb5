#include "model/strand_player.h"

#include "model/deliberate.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace anello::model {

void StrandPlayer::play() {
  for (const Turn& turn : strand_.turns) {
    const Step& step = strand_.steps[turn.step];
    const int rank = rank_in(program_.comms[std::size_t(step.comm)], me_);
    if (rank < 0) continue;
    try {
      take(turn, step, rank);
    } catch (const Wrong& wrong) {
      throw Wrong("step " + std::to_string(step.id) + (turn.round > 0 ? ", round " + std::to_string(turn.round) : "") +
                  ": " + wrong.what());
    }
  }
  try {
    pending_.complete_all(random_);
    for (auto& [key, part] : persistent_) free(*part);
  } catch (const Wrong& wrong) {
    throw Wrong(std::string("at the end: ") + wrong.what());
  }
}

void StrandPlayer::take(const Turn& turn, const Step& step, int rank) {
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

void StrandPlayer::begin(Part& part, anello_comm_t comm, anello_message_t* message) {
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

void StrandPlayer::free(Part& part) {
  if (part.request == ANELLO_REQUEST_NULL) return;
  need_ok(anello_request_free(&part.request), "request_free", ANELLO_COMM_NULL);
  need(part.request == ANELLO_REQUEST_NULL, "request_free leaves the request");
}

void StrandPlayer::make(const Step& step, int rank, anello_comm_t comm) {
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

void StrandPlayer::make_subset(const Step& step, int rank, anello_comm_t comm) {
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

void StrandPlayer::take_over(int index, anello_comm_t made) {
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

void StrandPlayer::destroy(const Step& step) {
  pending_.complete_all(random_);
  anello_comm_t& comm = comms_[std::size_t(step.comm)];
  need_ok(anello_comm_destroy(comm), "destroy", ANELLO_COMM_NULL);
  int rank = -1;
  need(anello_comm_rank(comm, &rank) == ANELLO_ERR_STATE, "the destroyed communicator has a rank");
  comm = ANELLO_COMM_NULL;
}

}  // namespace anello::model
