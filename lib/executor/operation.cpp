#include "executor/operation.h"

#include "base/kind.h"
#include "base/text.h"
#include "control/call_records.h"

namespace anello::executor {

std::string call_text(const Operation& operation) {
  if (operation.kind == ANELLO_PROBE) {
    return text("probe(from ", operation.peer, ", tag ", operation.tag, ")", operation.label.quoted());
  }
  if (is_message(operation.kind)) {
    return text(kind_name(operation.kind), "(count ", operation.count, ", ", dtype_name(operation.dtype),
                operation.kind == ANELLO_SEND ? ", to " : ", from ", operation.peer, ", tag ", operation.tag, ")",
                operation.label.quoted());
  }
  control::CallRecord record;
  record.kind = operation.kind;
  record.dtype = operation.dtype;
  record.op = operation.op;
  record.root = operation.peer;
  record.count = operation.count;
  record.set_label(operation.label);
  return text("operation ", operation.sequence, ", ", record.describe());
}

}  // namespace anello::executor
