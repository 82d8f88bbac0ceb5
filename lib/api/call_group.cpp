#include "api/call_group.h"

#include "api/requests.h"
#include "base/text.h"

using namespace anello;
using namespace anello::api;

namespace anello::api {
namespace {

// It lies at a fixed offset from the thread pointer, because every blocking call reads it.
[[gnu::tls_model("initial-exec")]] thread_local CallGroup* current_group = nullptr;

}  // namespace

CallGroup* CallGroup::current() { return current_group; }

void CallGroup::add(anello_request_t request, anello_status_t* status) {
  requests_.push_back(request);
  statuses_.push_back(status);
}

void refuse_in_group(const char* name) {
  if (current_group == nullptr) return;
  throw Error(ANELLO_ERR_STATE,
              text(name, " waits, and cannot be called between anello_group_begin and anello_group_end"));
}

struct CallGroups {
  static void begin() {
    if (current_group == nullptr) {
      current_group = new CallGroup;
    } else {
      ++current_group->depth_;
    }
  }

  static anello_result_t end() {
    if (current_group == nullptr) throw Error(ANELLO_ERR_STATE, "anello_group_end: this thread has begun no group");
    if (--current_group->depth_ > 0) return ANELLO_OK;
    const std::unique_ptr<CallGroup> group(std::exchange(current_group, nullptr));
    // A call that cannot be enqueued ends its communicator. The others go on.
    Error wrong;
    for (const auto& [communicator, line] : group->in_streams_) {
      try {
        communicator->finish_enqueuing(*line);
      } catch (const Error& why_not) {
        if (!wrong) wrong = why_not;
      }
    }
    wait_for_all(group->requests_.size(), group->requests_.data());
    anello_result_t first = ANELLO_OK;
    for (std::size_t i = 0; i < group->requests_.size(); ++i) {
      const anello_result_t result = anello_wait(&group->requests_[i], group->statuses_[i]);
      if (first == ANELLO_OK) first = result;
    }
    if (wrong) throw wrong;
    return first;
  }
};

}  // namespace anello::api

extern "C" {

anello_result_t anello_group_begin(void) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    CallGroups::begin();
    return ANELLO_OK;
  });
}

anello_result_t anello_group_end(void) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    return CallGroups::end();
  });
}

}  // extern "C"
