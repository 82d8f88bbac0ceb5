// Requests that repeat a call: they are made once, and started and completed any number of times.
#include "api/arguments.h"
#include "api/call_of.h"
#include "api/sendrecv.h"
#include "api/tables.h"
#include "base/kind.h"
#include "base/label.h"
#include "base/text.h"

#include <cstddef>
#include <cstring>

using namespace anello;
using namespace anello::api;

namespace {

// The arrays belong to the caller again after init; arrays that this rank does not use may point anywhere.
void keep_parts(Persistent& persistent, int rank, int size) {
  anello_call_t& call = persistent.call;
  const bool root = rank == call.peer;
  const bool sends = call.kind == ANELLO_ALLTOALLV || (call.kind == ANELLO_SCATTERV && root);
  const bool receives = call.kind == ANELLO_ALLTOALLV || call.kind == ANELLO_ALLGATHERV ||
                        call.kind == ANELLO_REDUCE_SCATTER || (call.kind == ANELLO_GATHERV && root);
  const auto keep = [&](std::vector<std::size_t>& into, const std::size_t*& from, bool used) {
    if (used && from != nullptr) {
      into.assign(from, from + size);
      from = into.data();
    } else {
      from = nullptr;
    }
  };
  keep(persistent.parts[0], call.sendcounts, sends);
  keep(persistent.parts[1], call.sdispls, sends);
  keep(persistent.parts[2], call.recvcounts, receives);
  keep(persistent.parts[3], call.rdispls, receives && call.kind != ANELLO_REDUCE_SCATTER);
}

void keep_strings(Persistent& persistent) {
  const auto keep = [](std::string& into, const char*& from) {
    if (from == nullptr) return;
    into.assign(from, strnlen(from, Label::kMost + 1));
    from = into.c_str();
  };
  keep(persistent.algorithm, persistent.call.algorithm);
  keep(persistent.label, persistent.call.label);
}

anello_result_t init(anello_comm_t comm, const anello_call_t& call, anello_request_t* request) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    if (request == nullptr) {
      throw Error(ANELLO_ERR_ARGUMENT, text("anello_", kind_name(call.kind), "_init: request is NULL"));
    }
    if (const Error refused = check(call, *communicator)) throw refused;
    auto persistent = std::make_shared<Persistent>();
    persistent->call = call;
    keep_parts(*persistent, communicator->rank(), communicator->size());
    keep_strings(*persistent);
    *request = request_of({{}, communicator, comm, std::move(persistent)});
    return ANELLO_OK;
  });
}

// For a persistent request; throws if it is not persistent.
template <class Body>
anello_result_t with_persistent(const char* name, anello_request_t request, Body&& body) {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    const Requests::Use use(requests(), number(request));
    if (!use || !use->persistent) throw Error(ANELLO_ERR_STATE, text(name, ": the request is not persistent"));
    if (use->work().awaited() != nullptr) throw Error(ANELLO_ERR_STATE, text(name, ": the request is active"));
    return body(*use);
  });
}

}  // namespace

extern "C" {

anello_result_t anello_post_init(anello_comm_t comm, const anello_call_t* call, anello_request_t* request) {
  anello_call_t whole;
  if (!complete_call(call, &whole)) {
    return failed(
        comm, Error(ANELLO_ERR_ARGUMENT, "anello_post_init: call is NULL or its size is not sizeof(anello_call_t)"));
  }
  return init(comm, whole, request);
}

anello_result_t anello_start(anello_request_t* request) {
  if (request == nullptr) return failed(ANELLO_COMM_NULL, Error(ANELLO_ERR_ARGUMENT, "anello_start: request is NULL"));
  return with_persistent("anello_start", *request, [](const Pending& pending) -> anello_result_t {
    if (const Error first = pending.communicator->first_error()) return failed(pending.comm, first);
    Persistent& what = *pending.persistent;
    if (what.send) {
      what.work = post_both(pending.comm, pending.communicator, {*what.send, what.call});
    } else {
      what.work.call = post_call(pending.comm, pending.communicator, what.call);
    }
    return ANELLO_OK;
  });
}

anello_result_t anello_start_all(size_t count, anello_request_t* requests_array) {
  if (count > 0 && requests_array == nullptr) {
    return failed(ANELLO_COMM_NULL, Error(ANELLO_ERR_ARGUMENT, "anello_start_all: requests is NULL"));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (const anello_result_t result = anello_start(&requests_array[i]); result != ANELLO_OK) return result;
  }
  return ANELLO_OK;
}

anello_result_t anello_request_free(anello_request_t* request) {
  if (request == nullptr) {
    return failed(ANELLO_COMM_NULL, Error(ANELLO_ERR_ARGUMENT, "anello_request_free: request is NULL"));
  }
  if (*request == ANELLO_REQUEST_NULL) return ANELLO_OK;
  const anello_result_t result =
      with_persistent("anello_request_free", *request, [](const Pending&) { return ANELLO_OK; });
  if (result != ANELLO_OK) return result;
  requests().remove(number(*request), [](const Pending&) {});
  *request = ANELLO_REQUEST_NULL;
  return ANELLO_OK;
}

anello_result_t anello_allreduce_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                      anello_op_t op, anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_ALLREDUCE, sendbuf, recvbuf, count, dtype, op), request);
}

anello_result_t anello_broadcast_init(void* buffer, size_t count, anello_dtype_t dtype, int root, anello_comm_t comm,
                                      anello_request_t* request) {
  return init(comm, call_of(ANELLO_BROADCAST, buffer, buffer, count, dtype, ANELLO_SUM, root), request);
}

anello_result_t anello_allgather_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                      anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_ALLGATHER, sendbuf, recvbuf, count, dtype), request);
}

anello_result_t anello_reduce_scatter_block_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                                 anello_op_t op, anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, count, dtype, op), request);
}

anello_result_t anello_reduce_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                   anello_op_t op, int root, anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_REDUCE, sendbuf, recvbuf, count, dtype, op, root), request);
}

anello_result_t anello_gather_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                                   anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_GATHER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root), request);
}

anello_result_t anello_scatter_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, int root,
                                    anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_SCATTER, sendbuf, recvbuf, count, dtype, ANELLO_SUM, root), request);
}

anello_result_t anello_alltoall_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                     anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_ALLTOALL, sendbuf, recvbuf, count, dtype), request);
}

anello_result_t anello_scan_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype, anello_op_t op,
                                 anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_SCAN, sendbuf, recvbuf, count, dtype, op), request);
}

anello_result_t anello_exscan_init(const void* sendbuf, void* recvbuf, size_t count, anello_dtype_t dtype,
                                   anello_op_t op, anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_EXSCAN, sendbuf, recvbuf, count, dtype, op), request);
}

anello_result_t anello_allgatherv_init(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                                       const size_t* displs, anello_dtype_t dtype, anello_comm_t comm,
                                       anello_request_t* request) {
  return init(comm,
              with_parts(call_of(ANELLO_ALLGATHERV, sendbuf, recvbuf, sendcount, dtype, ANELLO_SUM, 0), nullptr,
                         nullptr, recvcounts, displs),
              request);
}

anello_result_t anello_gatherv_init(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                                    const size_t* displs, anello_dtype_t dtype, int root, anello_comm_t comm,
                                    anello_request_t* request) {
  return init(comm,
              with_parts(call_of(ANELLO_GATHERV, sendbuf, recvbuf, sendcount, dtype, ANELLO_SUM, root), nullptr,
                         nullptr, recvcounts, displs),
              request);
}

anello_result_t anello_scatterv_init(const void* sendbuf, const size_t* sendcounts, const size_t* displs, void* recvbuf,
                                     size_t recvcount, anello_dtype_t dtype, int root, anello_comm_t comm,
                                     anello_request_t* request) {
  return init(comm,
              with_parts(call_of(ANELLO_SCATTERV, sendbuf, recvbuf, recvcount, dtype, ANELLO_SUM, root), sendcounts,
                         displs, nullptr, nullptr),
              request);
}

anello_result_t anello_reduce_scatter_init(const void* sendbuf, void* recvbuf, const size_t* recvcounts,
                                           anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                           anello_request_t* request) {
  return init(comm,
              with_parts(call_of(ANELLO_REDUCE_SCATTER, sendbuf, recvbuf, 0, dtype, op, 0), nullptr, nullptr,
                         recvcounts, nullptr),
              request);
}

anello_result_t anello_alltoallv_init(const void* sendbuf, const size_t* sendcounts, const size_t* sdispls,
                                      void* recvbuf, const size_t* recvcounts, const size_t* rdispls,
                                      anello_dtype_t dtype, anello_comm_t comm, anello_request_t* request) {
  return init(comm,
              with_parts(call_of(ANELLO_ALLTOALLV, sendbuf, recvbuf, 0, dtype, ANELLO_SUM, 0), sendcounts, sdispls,
                         recvcounts, rdispls),
              request);
}

anello_result_t anello_barrier_init(anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_BARRIER, nullptr, nullptr, 0, ANELLO_UINT8), request);
}

anello_result_t anello_send_init(const void* buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                 anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_SEND, buffer, nullptr, count, dtype, ANELLO_SUM, dest, tag), request);
}

anello_result_t anello_recv_init(void* buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                 anello_comm_t comm, anello_request_t* request) {
  return init(comm, call_of(ANELLO_RECV, nullptr, buffer, count, dtype, ANELLO_SUM, source, tag), request);
}

}  // extern "C"
