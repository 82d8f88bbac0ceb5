#pragma once
// What kinds of calls there are.
namespace anello {

// "allreduce" for ANELLO_ALLREDUCE; "post" for what is no anello_kind_t.
const char* kind_name(int kind);
// Between two ranks, outside the order of collectives.
bool is_message(int kind);
// Of those, the ones that tell what came.
bool has_status(int kind);

}  // namespace anello
