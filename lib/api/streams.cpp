// Calls in callers' streams (anello/stream.h).
#include "api/arguments.h"
#include "api/call_group.h"
#include "api/call_of.h"
#include "api/tables.h"
#include "base/text.h"

#include <anello/stream.h>

using namespace anello;
using namespace anello::api;

namespace {

anello_result_t enqueue(anello_comm_t comm, const anello_call_t& call, void* stream) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    if (const Error refused = check(call, *communicator)) {
      communicator->refuse(call, refused.code());
      return failed(comm, refused, {call.kind, -1, Label(call.label)});
    }
    if (call.kind == ANELLO_PROBE) throw Error(ANELLO_ERR_ARGUMENT, "anello_post_on: a probe cannot be in a stream");
    if (const Error first = communicator->first_error()) return failed(comm, first, {call.kind, -1, Label(call.label)});
    executor::StreamLine* const line = communicator->enqueue(call, stream);
    if (CallGroup* const group = CallGroup::current()) {
      group->add(communicator, line);
    } else {
      communicator->finish_enqueuing(*line);
    }
    return ANELLO_OK;
  });
}

}  // namespace

extern "C" {

anello_result_t anello_post_on(anello_comm_t comm, const anello_call_t* call, void* stream) {
  anello_call_t whole;
  if (complete_call(call, &whole)) return enqueue(comm, whole, stream);
  return with(comm, [&](const std::shared_ptr<Communicator>&) -> anello_result_t {
    throw Error(ANELLO_ERR_ARGUMENT, "anello_post_on: call is NULL or its size is not sizeof(anello_call_t)");
  });
}

anello_result_t anello_comm_async_error(anello_comm_t comm) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    const Error first = communicator->newest_error();
    return first ? failed(comm, first) : ANELLO_OK;
  });
}

anello_result_t anello_allreduce_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                    anello_op_t op, anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_ALLREDUCE, sendbuf, recvbuf, count, dtype, op), stream);
}

anello_result_t anello_broadcast_on(void* buffer, size_t count, anello_dtype_t dtype, int root, anello_comm_t comm,
                                    void* stream) {
  return enqueue(comm, call_of(ANELLO_BROADCAST, buffer, buffer, count, dtype, ANELLO_SUM, root), stream);
}

anello_result_t anello_reduce_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                                 int root, anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_REDUCE, sendbuf, recvbuf, count, dtype, op, root), stream);
}

anello_result_t anello_allgather_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                    anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_ALLGATHER, sendbuf, recvbuf, count, dtype), stream);
}

anello_result_t anello_reduce_scatter_block_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                               anello_op_t op, anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, count, dtype, op), stream);
}

anello_result_t anello_gather_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                                 anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_GATHER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root), stream);
}

anello_result_t anello_scatter_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                                  anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_SCATTER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root), stream);
}

anello_result_t anello_alltoall_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                   anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_ALLTOALL, sendbuf, recvbuf, count, dtype), stream);
}

anello_result_t anello_scan_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                               anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_SCAN, sendbuf, recvbuf, count, dtype, op), stream);
}

anello_result_t anello_exscan_on(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                                 anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_EXSCAN, sendbuf, recvbuf, count, dtype, op), stream);
}

anello_result_t anello_barrier_on(anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_BARRIER, nullptr, nullptr, 0, ANELLO_UINT8), stream);
}

anello_result_t anello_send_on(const void* buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                               anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_SEND, buffer, nullptr, count, dtype, ANELLO_SUM, dest, tag), stream);
}

anello_result_t anello_recv_on(void* buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                               anello_comm_t comm, void* stream) {
  return enqueue(comm, call_of(ANELLO_RECV, nullptr, buffer, count, dtype, ANELLO_SUM, source, tag), stream);
}

}  // extern "C"
