#pragma once
// Where a thread must not be cancelled (pthread_cancel): Anello's functions are noexcept, and unwinding one half way
// would leave a rank's lock held. A cancellation that comes meanwhile takes effect at the caller's own next
// cancellation point.
//
// Two atomic operations: too dear for the fast path of a small call, which has it around its system calls alone.
// Nothing else there is a cancellation point.
#include <pthread.h>

namespace anello {

class Uncancelled {
 public:
  Uncancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() {
    if (before_ != PTHREAD_CANCEL_DISABLE) ::pthread_setcancelstate(before_, nullptr);
  }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DISABLE;
};

}  // namespace anello
