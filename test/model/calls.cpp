#include "model/calls.h"

#include <algorithm>

namespace anello::model {
namespace {

enum class Bug {
  none,
  exscan_has_self,
  root_is_zero,
  empty_has_one,
  any_tag,
  keys_ignored,
  greatest_is_least,
  short_by_one,
  not_in_place,
};
Bug injected = Bug::none;

anello_call_t distorted(anello_call_t call) {
  switch (injected) {
    case Bug::exscan_has_self:
      if (call.kind == ANELLO_EXSCAN && call.recvbuf != nullptr) call.kind = ANELLO_SCAN;
      break;
    case Bug::root_is_zero:
      if (call.kind == ANELLO_BROADCAST) call.peer = 0;
      break;
    case Bug::any_tag:
      if (call.kind == ANELLO_RECV) call.tag = ANELLO_ANY_TAG;
      break;
    case Bug::greatest_is_least:
      if (call.op == ANELLO_MAXLOC) call.op = ANELLO_MINLOC;
      break;
    case Bug::short_by_one:
      if (call.kind == ANELLO_ALLREDUCE && call.count > 100'000) --call.count;
      break;
    case Bug::not_in_place:
      if (call.kind == ANELLO_ALLTOALL && call.count > 0 && call.sendbuf == ANELLO_IN_PLACE) call.count = 0;
      break;
    default: break;
  }
  return call;
}

anello_result_t blocking(const anello_call_t& c, anello_comm_t comm, anello_status_t* status) {
  switch (c.kind) {
    case ANELLO_ALLREDUCE: return anello_allreduce(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm);
    case ANELLO_BROADCAST: return anello_broadcast(c.recvbuf, c.count, c.dtype, c.peer, comm);
    case ANELLO_ALLGATHER: return anello_allgather(c.sendbuf, c.recvbuf, c.count, c.dtype, comm);
    case ANELLO_REDUCE_SCATTER_BLOCK:
      return anello_reduce_scatter_block(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm);
    case ANELLO_BARRIER: return anello_barrier(comm);
    case ANELLO_SEND: return anello_send(c.sendbuf, c.count, c.dtype, c.peer, c.tag, comm);
    case ANELLO_RECV: return anello_recv(c.recvbuf, c.count, c.dtype, c.peer, c.tag, comm, status);
    case ANELLO_REDUCE: return anello_reduce(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, c.peer, comm);
    case ANELLO_GATHER: return anello_gather(c.sendbuf, c.recvbuf, c.count, c.dtype, c.peer, comm);
    case ANELLO_SCATTER: return anello_scatter(c.sendbuf, c.recvbuf, c.count, c.dtype, c.peer, comm);
    case ANELLO_ALLTOALL: return anello_alltoall(c.sendbuf, c.recvbuf, c.count, c.dtype, comm);
    case ANELLO_SCAN: return anello_scan(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm);
    case ANELLO_EXSCAN: return anello_exscan(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm);
    case ANELLO_ALLGATHERV:
      return anello_allgatherv(c.sendbuf, c.count, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, comm);
    case ANELLO_GATHERV:
      return anello_gatherv(c.sendbuf, c.count, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, c.peer, comm);
    case ANELLO_SCATTERV:
      return anello_scatterv(c.sendbuf, c.sendcounts, c.sdispls, c.recvbuf, c.count, c.dtype, c.peer, comm);
    case ANELLO_REDUCE_SCATTER: return anello_reduce_scatter(c.sendbuf, c.recvbuf, c.recvcounts, c.dtype, c.op, comm);
    case ANELLO_ALLTOALLV:
      return anello_alltoallv(c.sendbuf, c.sendcounts, c.sdispls, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, comm);
    default: return ANELLO_ERR_INTERNAL;
  }
}

anello_result_t nonblocking(const anello_call_t& c, anello_comm_t comm, anello_request_t* r) {
  switch (c.kind) {
    case ANELLO_ALLREDUCE: return anello_iallreduce(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_BROADCAST: return anello_ibroadcast(c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_ALLGATHER: return anello_iallgather(c.sendbuf, c.recvbuf, c.count, c.dtype, comm, r);
    case ANELLO_REDUCE_SCATTER_BLOCK:
      return anello_ireduce_scatter_block(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_BARRIER: return anello_ibarrier(comm, r);
    case ANELLO_SEND: return anello_isend(c.sendbuf, c.count, c.dtype, c.peer, c.tag, comm, r);
    case ANELLO_RECV: return anello_irecv(c.recvbuf, c.count, c.dtype, c.peer, c.tag, comm, r);
    case ANELLO_REDUCE: return anello_ireduce(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, c.peer, comm, r);
    case ANELLO_GATHER: return anello_igather(c.sendbuf, c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_SCATTER: return anello_iscatter(c.sendbuf, c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_ALLTOALL: return anello_ialltoall(c.sendbuf, c.recvbuf, c.count, c.dtype, comm, r);
    case ANELLO_SCAN: return anello_iscan(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_EXSCAN: return anello_iexscan(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_ALLGATHERV:
      return anello_iallgatherv(c.sendbuf, c.count, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, comm, r);
    case ANELLO_GATHERV:
      return anello_igatherv(c.sendbuf, c.count, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, c.peer, comm, r);
    case ANELLO_SCATTERV:
      return anello_iscatterv(c.sendbuf, c.sendcounts, c.sdispls, c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_REDUCE_SCATTER:
      return anello_ireduce_scatter(c.sendbuf, c.recvbuf, c.recvcounts, c.dtype, c.op, comm, r);
    case ANELLO_ALLTOALLV:
      return anello_ialltoallv(c.sendbuf, c.sendcounts, c.sdispls, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, comm,
                               r);
    default: return ANELLO_ERR_INTERNAL;
  }
}

anello_result_t init(const anello_call_t& c, anello_comm_t comm, anello_request_t* r) {
  switch (c.kind) {
    case ANELLO_ALLREDUCE: return anello_allreduce_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_BROADCAST: return anello_broadcast_init(c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_ALLGATHER: return anello_allgather_init(c.sendbuf, c.recvbuf, c.count, c.dtype, comm, r);
    case ANELLO_REDUCE_SCATTER_BLOCK:
      return anello_reduce_scatter_block_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_BARRIER: return anello_barrier_init(comm, r);
    case ANELLO_SEND: return anello_send_init(c.sendbuf, c.count, c.dtype, c.peer, c.tag, comm, r);
    case ANELLO_RECV: return anello_recv_init(c.recvbuf, c.count, c.dtype, c.peer, c.tag, comm, r);
    case ANELLO_REDUCE: return anello_reduce_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, c.peer, comm, r);
    case ANELLO_GATHER: return anello_gather_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_SCATTER: return anello_scatter_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_ALLTOALL: return anello_alltoall_init(c.sendbuf, c.recvbuf, c.count, c.dtype, comm, r);
    case ANELLO_SCAN: return anello_scan_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_EXSCAN: return anello_exscan_init(c.sendbuf, c.recvbuf, c.count, c.dtype, c.op, comm, r);
    case ANELLO_ALLGATHERV:
      return anello_allgatherv_init(c.sendbuf, c.count, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, comm, r);
    case ANELLO_GATHERV:
      return anello_gatherv_init(c.sendbuf, c.count, c.recvbuf, c.recvcounts, c.rdispls, c.dtype, c.peer, comm, r);
    case ANELLO_SCATTERV:
      return anello_scatterv_init(c.sendbuf, c.sendcounts, c.sdispls, c.recvbuf, c.count, c.dtype, c.peer, comm, r);
    case ANELLO_REDUCE_SCATTER:
      return anello_reduce_scatter_init(c.sendbuf, c.recvbuf, c.recvcounts, c.dtype, c.op, comm, r);
    case ANELLO_ALLTOALLV:
      return anello_alltoallv_init(c.sendbuf, c.sendcounts, c.sdispls, c.recvbuf, c.recvcounts, c.rdispls, c.dtype,
                                   comm, r);
    default: return ANELLO_ERR_INTERNAL;
  }
}

}  // namespace

const std::vector<std::string>& bugs() {
  static const std::vector<std::string> names{"exscan-has-self", "root-is-zero",      "empty-has-one", "any-tag",
                                              "keys-ignored",    "greatest-is-least", "short-by-one",  "not-in-place"};
  return names;
}

bool inject(const std::string& bug) {
  if (bug.empty()) return true;
  const auto found = std::find(bugs().begin(), bugs().end(), bug);
  if (found == bugs().end()) return false;
  injected = static_cast<Bug>(found - bugs().begin() + 1);
  return true;
}

anello_result_t invoke(const anello_call_t& call, Form form, anello_comm_t comm, anello_request_t* request,
                       anello_status_t* status) {
  const anello_call_t given = injected == Bug::none ? call : distorted(call);
  switch (form) {
    case Form::blocking: return blocking(given, comm, status);
    case Form::nonblocking: return nonblocking(given, comm, request);
    case Form::persistent: return init(given, comm, request);
  }
  return ANELLO_ERR_INTERNAL;
}

anello_result_t split(anello_comm_t comm, int color, int key, anello_comm_t* result) {
  return anello_comm_split(comm, color, injected == Bug::keys_ignored ? 0 : key, result);
}

void seen(anello_status_t& status) {
  if (injected == Bug::empty_has_one && status.count == 0 && status.source >= 0) status.count = 1;
}

}  // namespace anello::model
