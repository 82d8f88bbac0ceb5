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
    case ANELLO_PROBE: return "probe";
    default: return "post";
  }
}

bool is_message(int kind) { return kind == ANELLO_SEND || kind == ANELLO_RECV || kind == ANELLO_PROBE; }

bool has_status(int kind) { return kind == ANELLO_RECV || kind == ANELLO_PROBE; }

}  // namespace anello
