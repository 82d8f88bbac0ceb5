// Errors as text and as fields.
#include "api/tables.h"
#include "base/kind.h"
#include "base/text.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

using namespace anello;
using namespace anello::api;

namespace {

// The data that anello_error_t points to.
struct Kept {
  LastError what;
  std::string host;
  std::vector<int> lost;
  std::vector<int> suspected;
};
thread_local Kept kept;

// False: nothing has failed.
bool find_failure(anello_comm_t comm, Communicator* communicator) {
  kept = {};
  if (const LastError* const last = remembered(comm)) {
    kept.what = *last;
  } else if (communicator != nullptr) {
    kept.what.error = communicator->first_error();
  }
  return bool(kept.what.error);
}

void fill(anello_error_t& error, Communicator* communicator) {
  const Error& what = kept.what.error;
  const FailedCall& call = kept.what.call;
  error = ANELLO_ERROR_INITIALIZER;
  error.code = what.code();
  error.text = what.text().c_str();
  if (communicator != nullptr) {
    error.rank = communicator->rank_of_world(what.peer());
    if (error.rank >= 0) {
      const control::Member& member = communicator->member(error.rank);
      kept.host = member.host;
      error.pid = member.pid;
    }
    kept.lost = communicator->lost_ranks();
    error.lost = kept.lost.empty() ? nullptr : kept.lost.data();
    error.lost_count = kept.lost.size();
    kept.suspected = communicator->suspected_ranks();
    error.suspected = kept.suspected.empty() ? nullptr : kept.suspected.data();
    error.suspected_count = kept.suspected.size();
  } else {
    error.rank = what.peer();
  }
  error.host = kept.host.c_str();
  if (call.kind >= 0) {
    error.call = kind_name(call.kind);
    error.kind = static_cast<anello_kind_t>(call.kind);
    error.sequence = call.sequence;
    error.label = call.label.c_str();
  }
}

}  // namespace

extern "C" {

const char* anello_last_error(anello_comm_t comm) {
  if (const LastError* const last = remembered(comm)) return last->error.text().c_str();
  if (comm == ANELLO_COMM_NULL) return "";
  try {
    refuse_here();
    const Communicators::Use use(communicators(), number(comm));
    return use ? keep_text((*use)->first_error().text()) : "";
  } catch (...) {
    return "";
  }
}

anello_result_t anello_error_info(anello_comm_t comm, anello_error_t* error) {
  // A caller built against an older header knows fewer fields.
  if (error == nullptr || (error->size != sizeof *error && error->size != offsetof(anello_error_t, suspected))) {
    return failed(
        comm, Error(ANELLO_ERR_ARGUMENT, "anello_error_info: error is NULL or its size is not sizeof(anello_error_t)"));
  }
  try {
    refuse_here();
    const Communicators::Use use(communicators(), number(comm));
    Communicator* const communicator = use ? use->get() : nullptr;
    if (communicator == nullptr && comm != ANELLO_COMM_NULL && remembered(comm) == nullptr) {
      return failed(comm, Error(ANELLO_ERR_STATE, "the communicator was destroyed or never existed"));
    }
    find_failure(comm, communicator);
    anello_error_t whole;
    fill(whole, communicator);
    whole.size = error->size;
    std::memcpy(error, &whole, error->size);
    return ANELLO_OK;
  } catch (...) {
    return failed(comm, caught());
  }
}

}  // extern "C"
