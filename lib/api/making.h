#pragma once
// Requests that make a communicator: what comes after their operation, or instead of one.
#include "api/tables.h"

#include <functional>
#include <memory>

namespace anello::api {

class Making {
 public:
  virtual ~Making() = default;
  // Of one without an operation: whether finish would return at once, and waiting for that.
  virtual bool done() { return true; }
  virtual void wait() {}
  // Puts the handle where the caller wants it. Once, when the operation is complete without error. Throws Error.
  virtual void finish() = 0;
};

anello_comm_t publish(std::shared_ptr<Communicator> communicator);

// Makes one on a thread of its own.
std::shared_ptr<Making> make_in_background(std::function<std::shared_ptr<Communicator>()> create,
                                           anello_comm_t* result);

}  // namespace anello::api
