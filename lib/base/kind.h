#pragma once
// The kinds of calls.

namespace anello {

// "allreduce": the C function's name without its prefix. "post" for an unknown kind.
const char* kind_name(int kind);

bool is_kind(int kind);
bool is_message(int kind);  // send, recv or probe: between two ranks, outside the order of collectives
bool has_status(int kind);  // of those, the kinds that report what arrived
bool kind_reduces(int kind);
bool kind_has_root(int kind);
// Parts differ in count.
bool kind_is_varying(int kind);
// scan, exscan: the results combine the ranks up to this one.
bool kind_is_prefix(int kind);

}  // namespace anello
