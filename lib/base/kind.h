#pragma once
// Names of calls, for people.
namespace anello {

// "allreduce" for ANELLO_ALLREDUCE; "post" for what is no anello_kind_t.
const char* kind_name(int kind);

}  // namespace anello
