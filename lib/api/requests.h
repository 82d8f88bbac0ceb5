#pragma once
// The operations that a request waits for, and functions that wait for one or for all of many requests.
#include "api/making.h"

namespace anello::api {

// The operations of a request, kept alive while the object lives. Throws for a bad handle.
class Held {
 public:
  explicit Held(anello_request_t request) : use_(requests(), number(request)) {
    if (!use_ && request != ANELLO_REQUEST_NULL) {
      throw Error(ANELLO_ERR_STATE, "the request was completed before or never existed");
    }
  }
  // An operation that is done only when all of the request's operations are; null for the null request.
  executor::Operation* operation() const { return use_ ? use_->work().awaited() : nullptr; }
  bool is_pair() const { return use_ && use_->work().is_pair(); }
  Making* alone() const { return use_ ? use_->alone() : nullptr; }
  executor::Context* context() const { return use_ ? &use_->communicator->context() : nullptr; }
  // There is nothing to wait for: a null request, or a persistent one that is not active.
  bool idle() const { return operation() == nullptr && alone() == nullptr; }

 private:
  Requests::Use use_;
};

// Throws for a bad handle.
bool is_idle(anello_request_t request);
// Drives once, without waiting. Also true if there is nothing to wait for.
bool test_one(anello_request_t request);
// Blocks until one of the requests is done; false if there is nothing to wait for.
bool wait_for_one(std::size_t count, const anello_request_t* array);
// Blocks until all are done, whichever ranks of this process they belong to.
void wait_for_all(std::size_t count, const anello_request_t* array);

}  // namespace anello::api
