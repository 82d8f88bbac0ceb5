#pragma once
// Requests that make a communicator: the work after their operation, or instead of one.
#include "api/tables.h"

#include <functional>
#include <memory>

namespace anello::api {

class Making {
 public:
  virtual ~Making() = default;
  // For a request without an operation: whether finish would return at once, and a wait for that.
  virtual bool done() { return true; }
  virtual void wait() {}
  // Stores the handle in the caller's variable. It is called once, when the operation is complete without error. Throws
  // Error.
  virtual void finish() = 0;
};

anello_comm_t publish(std::shared_ptr<Communicator> communicator);

// Makes a communicator on a separate thread.
std::shared_ptr<Making> make_in_background(std::function<std::shared_ptr<Communicator>()> create,
                                           anello_comm_t* result);

}  // namespace anello::api
