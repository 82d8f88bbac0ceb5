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
