#include "base/kind.h"

#include <anello/anello.h>

namespace anello {

const char* kind_name(int kind) {
  switch (kind) {
    case ANELLO_ALLREDUCE: return "allreduce";
    case ANELLO_BROADCAST: return "broadcast";
    case ANELLO_ALLGATHER: return "allgather";
    case ANELLO_REDUCE_SCATTER_BLOCK: return "reduce_scatter_block";
    case ANELLO_BARRIER: return "barrier";
    case ANELLO_SEND: return "send";
    case ANELLO_RECV: return "recv";
    case ANELLO_REDUCE: return "reduce";
    case ANELLO_GATHER: return "gather";
    case ANELLO_SCATTER: return "scatter";
    case ANELLO_ALLTOALL: return "alltoall";
    case ANELLO_SCAN: return "scan";
    case ANELLO_EXSCAN: return "exscan";
    case ANELLO_ALLGATHERV: return "allgatherv";
    case ANELLO_GATHERV: return "gatherv";
    case ANELLO_SCATTERV: return "scatterv";
    case ANELLO_REDUCE_SCATTER: return "reduce_scatter";
    case ANELLO_ALLTOALLV: return "alltoallv";
    case ANELLO_PROBE: return "probe";
    default: return "post";
  }
}

bool is_kind(int kind) { return (kind >= ANELLO_ALLREDUCE && kind <= ANELLO_ALLTOALLV) || kind == ANELLO_PROBE; }

bool is_message(int kind) { return kind == ANELLO_SEND || kind == ANELLO_RECV || kind == ANELLO_PROBE; }

bool has_status(int kind) { return kind == ANELLO_RECV || kind == ANELLO_PROBE; }

bool kind_reduces(int kind) {
  return kind == ANELLO_ALLREDUCE || kind == ANELLO_REDUCE_SCATTER_BLOCK || kind == ANELLO_REDUCE ||
         kind == ANELLO_REDUCE_SCATTER || kind_is_prefix(kind);
}

bool kind_has_root(int kind) {
  return kind == ANELLO_BROADCAST || kind == ANELLO_REDUCE || kind == ANELLO_GATHER || kind == ANELLO_SCATTER ||
         kind == ANELLO_GATHERV || kind == ANELLO_SCATTERV;
}

bool kind_is_varying(int kind) { return kind >= ANELLO_ALLGATHERV && kind <= ANELLO_ALLTOALLV; }

bool kind_is_prefix(int kind) { return kind == ANELLO_SCAN || kind == ANELLO_EXSCAN; }

}  // namespace anello
