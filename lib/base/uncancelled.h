#pragma once
// A scope in which the thread must not be cancelled (pthread_cancel): Anello's functions are noexcept, and unwinding
// one half-way would leave a rank's lock held. A cancellation that arrives meanwhile takes effect at the caller's next
// cancellation point.
//
// It costs two atomic operations. This is too expensive for the fast path of a small call, which uses it only around
// its system calls, because nothing else there is a cancellation point.
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
