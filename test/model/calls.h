#pragma once
// The public functions by their names: a call's kind and form choose one. Between a program and the library there can
// be a bug, so that the test of the test needs no other build of the library.
#include "model/program.h"

namespace anello::model {

// status: of blocking receives. request: of the other forms.
anello_result_t invoke(const anello_call_t& call, Form form, anello_comm_t comm, anello_request_t* request,
                       anello_status_t* status);
anello_result_t split(anello_comm_t comm, int color, int key, anello_comm_t* result);
// A status as the library has said it.
void seen(anello_status_t& status);

// "" for none; false when there is no such bug.
bool inject(const std::string& bug);
const std::vector<std::string>& bugs();

}  // namespace anello::model
