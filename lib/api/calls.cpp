// Collectives and messages: one line each over anello_post.
#include "api/arguments.h"
#include "api/call_group.h"
#include "api/call_of.h"
#include "api/fast_call.h"
#include "api/tables.h"
#include "base/kind.h"
#include "base/text.h"

using namespace anello;
using namespace anello::api;

namespace {

// Checks, then posts or runs. request NULL: blocks.
anello_result_t dispatch(anello_comm_t comm, const anello_call_t& call, anello_request_t* request, bool blocking,
                         anello_status_t* status) {
  CallGroup* const group = blocking ? CallGroup::current() : nullptr;
  if (group != nullptr) {
    anello_request_t posted = ANELLO_REQUEST_NULL;
    const anello_result_t result = dispatch(comm, call, &posted, false, nullptr);
    if (result == ANELLO_OK) group->add(posted, status);
    return result;
  }
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    if (const Error refused = check(call, *communicator)) {
      communicator->refuse(call, refused.code());
      return failed(comm, refused, {call.kind, -1, Label(call.label)});
    }
    if (blocking) return run_call(comm, communicator, call, status);
    if (request == nullptr) {
      const Error refused(ANELLO_ERR_ARGUMENT, text("anello_i", kind_name(call.kind), ": request is NULL"));
      communicator->refuse(call, refused.code());
      throw refused;
    }
    if (const Error first = communicator->first_error()) return failed(comm, first, {call.kind, -1, Label(call.label)});
    *request = request_of(post_call(comm, communicator, call), communicator, comm);
    return ANELLO_OK;
  });
}

using Entered = executor::Context::Entered;

// The rest of run_fast(), in a separate function so that its beginning has a small frame.
[[gnu::noinline]] anello_result_t wait_for(anello_comm_t comm, Communicator& communicator,
                                           executor::Operation* operation, anello_status_t* status) {
  const Uncancelled whole;
  const anello_kind_t kind = operation->kind;
  std::int64_t sequence = -1;
  const Error error = communicator.wait_for(operation, status, &sequence);
  return error ? failed(comm, error, {kind, sequence, {}}) : ANELLO_OK;
}
template <class Plain>
[[gnu::noinline]] anello_result_t at_length(anello_comm_t comm, const Plain& call, anello_status_t* status) {
  return dispatch(comm, call_of(call), nullptr, true, status);
}

// Runs a blocking call by a fast path of its communicator, enter(communicator, &operation), if that accepts it.
template <class Plain, class Enter>
[[gnu::always_inline]] inline anello_result_t run_fast(anello_comm_t comm, const Plain& call, anello_status_t* status,
                                                       Enter&& enter) noexcept {
  const auto try_fast = [&](Communicator& communicator) -> int {
    executor::Operation* operation = nullptr;
    const Entered entered = enter(communicator, &operation);
    if (entered == Entered::complete) return ANELLO_OK;
    return entered == Entered::under_way ? wait_for(comm, communicator, operation, status) : kNotTaken;
  };
  return on_fast_path(comm, try_fast, [&] { return at_length(comm, call, status); });
}

// Most calls of a loop repeat the last call: these are not checked or prepared again.
anello_result_t collective(anello_comm_t comm, const PlainCall& call) noexcept {
  return run_fast(comm, call, nullptr, [&](Communicator& communicator, executor::Operation** operation) {
    return communicator.repeat(call, operation);
  });
}

}  // namespace

extern "C" {

anello_result_t anello_post(anello_comm_t comm, const anello_call_t* call, anello_request_t* request) {
  anello_call_t whole;
  if (!complete_call(call, &whole)) {
    return with(comm, [&](const std::shared_ptr<Communicator>&) -> anello_result_t {
      throw Error(ANELLO_ERR_ARGUMENT, "anello_post: call is NULL or its size is not sizeof(anello_call_t)");
    });
  }
  if (request != nullptr) return dispatch(comm, whole, request, false, nullptr);
  const std::optional<PlainCall> plain = PlainCall::of(whole);
  return plain ? collective(comm, *plain) : dispatch(comm, whole, nullptr, true, nullptr);
}

anello_result_t anello_allreduce(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                                 anello_comm_t comm) {
  return collective(comm, {ANELLO_ALLREDUCE, sendbuf, recvbuf, count, dtype, op});
}

anello_result_t anello_broadcast(void* buffer, size_t count, anello_dtype_t dtype, int root, anello_comm_t comm) {
  return collective(comm, {ANELLO_BROADCAST, buffer, buffer, count, dtype, ANELLO_SUM, root});
}

anello_result_t anello_allgather(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                 anello_comm_t comm) {
  return collective(comm, {ANELLO_ALLGATHER, sendbuf, recvbuf, count, dtype});
}

anello_result_t anello_reduce_scatter_block(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_op_t op, anello_comm_t comm) {
  return collective(comm, {ANELLO_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, count, dtype, op});
}

anello_result_t anello_reduce(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                              int root, anello_comm_t comm) {
  return collective(comm, {ANELLO_REDUCE, sendbuf, recvbuf, count, dtype, op, root});
}

anello_result_t anello_gather(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                              anello_comm_t comm) {
  return collective(comm, {ANELLO_GATHER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root});
}

anello_result_t anello_scatter(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                               anello_comm_t comm) {
  return collective(comm, {ANELLO_SCATTER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root});
}

anello_result_t anello_alltoall(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                anello_comm_t comm) {
  return collective(comm, {ANELLO_ALLTOALL, sendbuf, recvbuf, count, dtype});
}

anello_result_t anello_scan(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                            anello_comm_t comm) {
  return collective(comm, {ANELLO_SCAN, sendbuf, recvbuf, count, dtype, op});
}

anello_result_t anello_exscan(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                              anello_comm_t comm) {
  return collective(comm, {ANELLO_EXSCAN, sendbuf, recvbuf, count, dtype, op});
}

anello_result_t anello_allgatherv(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                                  const size_t* displs, anello_dtype_t dtype, anello_comm_t comm) {
  const anello_call_t call = with_parts(call_of(ANELLO_ALLGATHERV, sendbuf, recvbuf, sendcount, dtype, ANELLO_SUM, 0),
                                        nullptr, nullptr, recvcounts, displs);
  return dispatch(comm, call, nullptr, true, nullptr);
}

anello_result_t anello_gatherv(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                               const size_t* displs, anello_dtype_t dtype, int root, anello_comm_t comm) {
  const anello_call_t call = with_parts(call_of(ANELLO_GATHERV, sendbuf, recvbuf, sendcount, dtype, ANELLO_SUM, root),
                                        nullptr, nullptr, recvcounts, displs);
  return dispatch(comm, call, nullptr, true, nullptr);
}

anello_result_t anello_scatterv(const void* sendbuf, const size_t* sendcounts, const size_t* displs, void* recvbuf,
                                size_t recvcount, anello_dtype_t dtype, int root, anello_comm_t comm) {
  const anello_call_t call = with_parts(call_of(ANELLO_SCATTERV, sendbuf, recvbuf, recvcount, dtype, ANELLO_SUM, root),
                                        sendcounts, displs, nullptr, nullptr);
  return dispatch(comm, call, nullptr, true, nullptr);
}

anello_result_t anello_reduce_scatter(const void* sendbuf, void* recvbuf, const size_t* recvcounts,
                                      anello_dtype_t dtype, anello_op_t op, anello_comm_t comm) {
  const anello_call_t call = with_parts(call_of(ANELLO_REDUCE_SCATTER, sendbuf, recvbuf, 0, dtype, op, 0), nullptr,
                                        nullptr, recvcounts, nullptr);
  return dispatch(comm, call, nullptr, true, nullptr);
}

anello_result_t anello_alltoallv(const void* sendbuf, const size_t* sendcounts, const size_t* sdispls, void* recvbuf,
                                 const size_t* recvcounts, const size_t* rdispls, anello_dtype_t dtype,
                                 anello_comm_t comm) {
  const anello_call_t call = with_parts(call_of(ANELLO_ALLTOALLV, sendbuf, recvbuf, 0, dtype, ANELLO_SUM, 0),
                                        sendcounts, sdispls, recvcounts, rdispls);
  return dispatch(comm, call, nullptr, true, nullptr);
}

anello_result_t anello_barrier(anello_comm_t comm) {
  return collective(comm, {ANELLO_BARRIER, nullptr, nullptr, 0, ANELLO_UINT8});
}

anello_result_t anello_send(const void* buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                            anello_comm_t comm) {
  const PlainSend send{buffer, count, dtype, dest, tag};
  return run_fast(comm, send, nullptr, [&](Communicator& communicator, executor::Operation** operation) {
    return is_sound(buffer, count, dtype, dest, tag, communicator.size()) ? communicator.pass(send, true, operation)
                                                                          : Entered::not_begun;
  });
}

anello_result_t anello_recv(void* buffer, size_t count, anello_dtype_t dtype, int source, int tag, anello_comm_t comm,
                            anello_status_t* status) {
  const PlainReceive receive{buffer, count, dtype, source, tag};
  return run_fast(comm, receive, status, [&](Communicator& communicator, executor::Operation**) {
    if (!is_sound(buffer, count, dtype, source, tag, communicator.size())) return Entered::not_begun;
    return communicator.pass(receive, status) ? Entered::complete : Entered::not_begun;
  });
}

anello_result_t anello_iallreduce(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                  anello_op_t op, anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_ALLREDUCE, sendbuf, recvbuf, count, dtype, op), request, false, nullptr);
}

anello_result_t anello_ibroadcast(void* buffer, size_t count, anello_dtype_t dtype, int root, anello_comm_t comm,
                                  anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_BROADCAST, buffer, buffer, count, dtype, ANELLO_SUM, root), request, false,
                  nullptr);
}

anello_result_t anello_iallgather(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                  anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_ALLGATHER, sendbuf, recvbuf, count, dtype), request, false, nullptr);
}

anello_result_t anello_ireduce_scatter_block(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                             anello_op_t op, anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, count, dtype, op), request, false,
                  nullptr);
}

anello_result_t anello_ireduce(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                               int root, anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_REDUCE, sendbuf, recvbuf, count, dtype, op, root), request, false, nullptr);
}

anello_result_t anello_igather(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                               anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_GATHER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root), request, false,
                  nullptr);
}

anello_result_t anello_iscatter(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                                anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_SCATTER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root), request, false,
                  nullptr);
}

anello_result_t anello_ialltoall(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                 anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_ALLTOALL, sendbuf, recvbuf, count, dtype), request, false, nullptr);
}

anello_result_t anello_iscan(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                             anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_SCAN, sendbuf, recvbuf, count, dtype, op), request, false, nullptr);
}

anello_result_t anello_iexscan(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                               anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_EXSCAN, sendbuf, recvbuf, count, dtype, op), request, false, nullptr);
}

anello_result_t anello_iallgatherv(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                                   const size_t* displs, anello_dtype_t dtype, anello_comm_t comm,
                                   anello_request_t* request) {
  const anello_call_t call = with_parts(call_of(ANELLO_ALLGATHERV, sendbuf, recvbuf, sendcount, dtype, ANELLO_SUM, 0),
                                        nullptr, nullptr, recvcounts, displs);
  return dispatch(comm, call, request, false, nullptr);
}

anello_result_t anello_igatherv(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                                const size_t* displs, anello_dtype_t dtype, int root, anello_comm_t comm,
                                anello_request_t* request) {
  const anello_call_t call = with_parts(call_of(ANELLO_GATHERV, sendbuf, recvbuf, sendcount, dtype, ANELLO_SUM, root),
                                        nullptr, nullptr, recvcounts, displs);
  return dispatch(comm, call, request, false, nullptr);
}

anello_result_t anello_iscatterv(const void* sendbuf, const size_t* sendcounts, const size_t* displs, void* recvbuf,
                                 size_t recvcount, anello_dtype_t dtype, int root, anello_comm_t comm,
                                 anello_request_t* request) {
  const anello_call_t call = with_parts(call_of(ANELLO_SCATTERV, sendbuf, recvbuf, recvcount, dtype, ANELLO_SUM, root),
                                        sendcounts, displs, nullptr, nullptr);
  return dispatch(comm, call, request, false, nullptr);
}

anello_result_t anello_ireduce_scatter(const void* sendbuf, void* recvbuf, const size_t* recvcounts,
                                       anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                       anello_request_t* request) {
  const anello_call_t call = with_parts(call_of(ANELLO_REDUCE_SCATTER, sendbuf, recvbuf, 0, dtype, op, 0), nullptr,
                                        nullptr, recvcounts, nullptr);
  return dispatch(comm, call, request, false, nullptr);
}

anello_result_t anello_ialltoallv(const void* sendbuf, const size_t* sendcounts, const size_t* sdispls, void* recvbuf,
                                  const size_t* recvcounts, const size_t* rdispls, anello_dtype_t dtype,
                                  anello_comm_t comm, anello_request_t* request) {
  const anello_call_t call = with_parts(call_of(ANELLO_ALLTOALLV, sendbuf, recvbuf, 0, dtype, ANELLO_SUM, 0),
                                        sendcounts, sdispls, recvcounts, rdispls);
  return dispatch(comm, call, request, false, nullptr);
}

anello_result_t anello_ibarrier(anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_BARRIER, nullptr, nullptr, 0, ANELLO_UINT8), request, false, nullptr);
}

anello_result_t anello_isend(const void* buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                             anello_comm_t comm, anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_SEND, buffer, nullptr, count, dtype, ANELLO_SUM, dest, tag), request, false,
                  nullptr);
}

anello_result_t anello_irecv(void* buffer, size_t count, anello_dtype_t dtype, int source, int tag, anello_comm_t comm,
                             anello_request_t* request) {
  return dispatch(comm, call_of(ANELLO_RECV, nullptr, buffer, count, dtype, ANELLO_SUM, source, tag), request, false,
                  nullptr);
}

}  // extern "C"
