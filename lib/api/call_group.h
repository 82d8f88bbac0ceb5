#pragma once
// The calls of this thread since anello_group_begin: calls that would wait are posted, and the end waits for all of
// them together.
#include "communicator/communicator.h"

#include <anello/anello.h>

#include <memory>
#include <utility>
#include <vector>

namespace anello::api {

class CallGroup {
 public:
  // This thread's open group; nullptr outside a group.
  static CallGroup* current();

  // A request that the end waits for. status: the caller's, or NULL.
  void add(anello_request_t request, anello_status_t* status);
  // A call whose stream waits for it at the end.
  void add(std::shared_ptr<Communicator> communicator, executor::StreamLine* line) {
    in_streams_.emplace_back(std::move(communicator), line);
  }

 private:
  friend struct CallGroups;
  int depth_ = 1;
  std::vector<anello_request_t> requests_;
  std::vector<anello_status_t*> statuses_;
  std::vector<std::pair<std::shared_ptr<Communicator>, executor::StreamLine*>> in_streams_;
};

// Throws inside a group: a call of this name would wait for something that only the group's end can bring.
void refuse_in_group(const char* name);

}  // namespace anello::api
