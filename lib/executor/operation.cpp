#include "executor/operation.h"

#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "control/call_records.h"
#include "executor/group.h"

namespace anello::executor {
namespace {

recorder::MessageLog& log_of(const Operation& operation) {
  recorder::Record& record = operation.group->record;
  return operation.kind == ANELLO_SEND ? record->sent : record->received;
}

}  // namespace

void note_begin(Operation& operation) {
  operation.noted = log_of(operation).begin({operation.peer, operation.tag, operation.bytes});
}

void note_stay(const Operation& operation, std::int64_t now) {
  if (!is_message(operation.kind)) {
    operation.group->record->ledger.see(operation.sequence, now);
  } else if (operation.noted != recorder::MessageLog::kNone) {
    log_of(operation).see(operation.noted, now);
  }
}

void note_end(const Operation& operation) {
  if (!is_message(operation.kind)) {
    operation.group->record->ledger.end(operation.sequence, operation.error.code(), now_ns);
  } else if (operation.noted != recorder::MessageLog::kNone) {
    recorder::MessageRecord message{operation.peer, operation.tag, operation.bytes};
    if (operation.kind == ANELLO_RECV && !operation.error)
      message = {operation.status.source, operation.status.tag, operation.status.count * operation.element_bytes};
    log_of(operation).end(operation.noted, message, operation.error.code(), now_ns);
  }
}

schedule::Collective operation_collective(anello_kind_t kind) {
  switch (kind) {
    case ANELLO_ALLREDUCE: return schedule::Collective::allreduce;
    case ANELLO_BROADCAST: return schedule::Collective::broadcast;
    case ANELLO_ALLGATHER: return schedule::Collective::allgather;
    case ANELLO_REDUCE_SCATTER_BLOCK: return schedule::Collective::reduce_scatter;
    case ANELLO_REDUCE: return schedule::Collective::reduce;
    case ANELLO_GATHER: return schedule::Collective::gather;
    case ANELLO_SCATTER: return schedule::Collective::scatter;
    case ANELLO_ALLTOALL: return schedule::Collective::alltoall;
    case ANELLO_SCAN: return schedule::Collective::scan;
    case ANELLO_EXSCAN: return schedule::Collective::exscan;
    case ANELLO_ALLGATHERV: return schedule::Collective::allgatherv;
    case ANELLO_GATHERV: return schedule::Collective::gatherv;
    case ANELLO_SCATTERV: return schedule::Collective::scatterv;
    case ANELLO_REDUCE_SCATTER: return schedule::Collective::reduce_scatterv;
    case ANELLO_ALLTOALLV: return schedule::Collective::alltoallv;
    default: return schedule::Collective::barrier;
  }
}

std::string call_text(const Operation& operation) {
  if (operation.kind == ANELLO_PROBE) {
    return text("probe(from ", operation.peer, ", tag ", operation.tag, ")", operation.label.quoted());
  }
  if (is_message(operation.kind)) {
    return text(kind_name(operation.kind), "(count ", operation.count, ", ", dtype_name(operation.dtype),
                operation.kind == ANELLO_SEND ? ", to " : ", from ", operation.peer, ", tag ", operation.tag, ")",
                operation.label.quoted());
  }
  recorder::CallRecord record;
  record.kind = operation.kind;
  record.dtype = operation.dtype;
  record.op = operation.op;
  record.root = operation.peer;
  record.count = operation.count;
  record.set_label(operation.label);
  return text("operation ", operation.sequence, ", ", record.describe());
}

}  // namespace anello::executor
