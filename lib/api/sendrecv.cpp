#include "api/sendrecv.h"

#include "api/arguments.h"
#include "api/call_group.h"
#include "api/call_of.h"
#include "api/fast_call.h"

using namespace anello;
using namespace anello::api;

namespace anello::api {

void require_valid(const SendReceive& both, const Communicator& communicator) {
  const anello_call_t& send = both.send;
  const anello_call_t& receive = both.receive;
  if (const Error refused = check(receive, communicator)) throw refused;
  if (const Error refused = check(send, communicator)) throw refused;
  const std::size_t element = dtype_bytes(send.dtype);
  if (receive.peer != ANELLO_RANK_NULL && send.peer != ANELLO_RANK_NULL &&
      overlap(send.sendbuf, send.count * element, receive.recvbuf, receive.count * element)) {
    throw Error(ANELLO_ERR_ARGUMENT, "anello_sendrecv: sendbuf and recvbuf overlap");
  }
}

Work post_both(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator, const SendReceive& both) {
  Work work;
  work.call = post_call(comm, communicator, both.receive);
  try {
    work.send = post_call(comm, communicator, both.send);
  } catch (...) {
    // A send is refused if the communicator has failed. Then the receive also ends at once.
    executor::Operation& receive = *work.call.operation;
    communicator->context().wait(receive);
    if (work.call.reported) work.call.reported->completed(receive.error, receive.status);
    communicator->context().release(&receive);
    throw;
  }
  return work;
}

namespace {

SendReceive both_of(const void* sendbuf, std::size_t sendcount, int dest, int sendtag, void* recvbuf,
                    std::size_t recvcount, int source, int recvtag, anello_dtype_t dtype) {
  return {call_of(ANELLO_SEND, sendbuf, nullptr, sendcount, dtype, ANELLO_SUM, dest, sendtag),
          call_of(ANELLO_RECV, nullptr, recvbuf, recvcount, dtype, ANELLO_SUM, source, recvtag)};
}

// The receive is posted first: the peer's send may wait for it before it receives.
anello_result_t run_both_with_hooks(anello_comm_t comm, const std::shared_ptr<Communicator>& communicator,
                                    const SendReceive& both, anello_status_t* status) {
  anello_request_t receiving = request_of(post_call(comm, communicator, both.receive), communicator, comm);
  const anello_result_t sent = run_call(comm, communicator, both.send, nullptr);
  // A failed send has failed the communicator, so the receive also ends at once.
  const anello_result_t received = anello_wait(&receiving, status);
  return sent != ANELLO_OK ? sent : received;
}

// Waits for both; `sending` says whether the send is already in flight.
[[gnu::noinline]] anello_result_t begin_and_wait(anello_comm_t comm, Communicator& communicator,
                                                 const SendReceive& both, executor::Operation* sending,
                                                 anello_status_t* status) {
  const Uncancelled whole;
  executor::Operation* receiving = nullptr;
  try {
    // The background gets no work: the waiting thread drives both.
    receiving = communicator.begin(both.receive);
    if (sending == nullptr) sending = communicator.begin(both.send);
  } catch (...) {
    // A call is refused if the communicator has failed. Then the other one also ends at once.
    for (executor::Operation* begun : {sending, receiving}) {
      if (begun != nullptr) communicator.wait_for(begun, nullptr, nullptr);
    }
    throw;
  }
  const Error sent = communicator.wait_for(sending, nullptr, nullptr);
  const Error received = communicator.wait_for(receiving, status, nullptr);
  if (sent) return failed(comm, sent, {ANELLO_SEND, -1, {}});
  return received ? failed(comm, received, {ANELLO_RECV, -1, {}}) : ANELLO_OK;
}

// A send that is complete at once is complete before its receive is made.
[[gnu::noinline]] anello_result_t receive_only(anello_comm_t comm, Communicator& communicator,
                                               const PlainReceive& receive, anello_status_t* status) {
  const Uncancelled whole;
  const Error received = communicator.run(call_of(receive), status);
  return received ? failed(comm, received, {ANELLO_RECV, -1, {}}) : ANELLO_OK;
}

[[gnu::noinline]] anello_result_t at_length(anello_comm_t comm, const SendReceive& both, anello_status_t* status) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    require_valid(both, *communicator);
    if (CallGroup* const group = CallGroup::current()) {
      group->add(request_of({post_both(comm, communicator, both), communicator, comm}), status);
      return ANELLO_OK;
    }
    if (hooks_are_set.load(std::memory_order_relaxed)) return run_both_with_hooks(comm, communicator, both, status);
    return begin_and_wait(comm, *communicator, both, nullptr, status);
  });
}

}  // namespace
}  // namespace anello::api

extern "C" {

anello_result_t anello_sendrecv(const void* sendbuf, size_t sendcount, int dest, int sendtag, void* recvbuf,
                                size_t recvcount, int source, int recvtag, anello_dtype_t dtype, anello_comm_t comm,
                                anello_status_t* status) {
  const auto try_fast = [&](Communicator& communicator) -> int {
    const int size = communicator.size();
    if (!is_sound(sendbuf, sendcount, dtype, dest, sendtag, size) ||
        !is_sound(recvbuf, recvcount, dtype, source, recvtag, size) ||
        overlap(sendbuf, sendcount * dtype_bytes(dtype), recvbuf, recvcount * dtype_bytes(dtype))) {
      return kNotTaken;
    }
    const PlainSend send{sendbuf, sendcount, dtype, dest, sendtag};
    const PlainReceive receive{recvbuf, recvcount, dtype, source, recvtag};
    executor::Operation* sending = nullptr;
    switch (communicator.pass(send, receive, status, &sending)) {
      case Communicator::Passed::both: return ANELLO_OK;
      case Communicator::Passed::send: return receive_only(comm, communicator, receive, status);
      case Communicator::Passed::send_under_way:
        return begin_and_wait(comm, communicator, {call_of(send), call_of(receive)}, sending, status);
      case Communicator::Passed::neither: break;
    }
    return kNotTaken;
  };
  return on_fast_path(comm, try_fast, [&] {
    return at_length(comm, both_of(sendbuf, sendcount, dest, sendtag, recvbuf, recvcount, source, recvtag, dtype),
                     status);
  });
}

anello_result_t anello_isendrecv(const void* sendbuf, size_t sendcount, int dest, int sendtag, void* recvbuf,
                                 size_t recvcount, int source, int recvtag, anello_dtype_t dtype, anello_comm_t comm,
                                 anello_request_t* request) {
  const SendReceive both = both_of(sendbuf, sendcount, dest, sendtag, recvbuf, recvcount, source, recvtag, dtype);
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    require_valid(both, *communicator);
    if (request == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "anello_isendrecv: request is NULL");
    if (const Error first = communicator->first_error()) return failed(comm, first, {ANELLO_SEND, -1, Label()});
    *request = request_of({post_both(comm, communicator, both), communicator, comm});
    return ANELLO_OK;
  });
}

anello_result_t anello_sendrecv_init(const void* sendbuf, size_t sendcount, int dest, int sendtag, void* recvbuf,
                                     size_t recvcount, int source, int recvtag, anello_dtype_t dtype,
                                     anello_comm_t comm, anello_request_t* request) {
  const SendReceive both = both_of(sendbuf, sendcount, dest, sendtag, recvbuf, recvcount, source, recvtag, dtype);
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    require_valid(both, *communicator);
    if (request == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "anello_sendrecv_init: request is NULL");
    auto persistent = std::make_shared<Persistent>();
    persistent->call = both.receive;
    persistent->send = both.send;
    *request = request_of({{}, communicator, comm, std::move(persistent)});
    return ANELLO_OK;
  });
}

}  // extern "C"
