#pragma once
// While it lives, a write of this thread only fails if the kernel would otherwise send a signal, because the file would
// exceed ulimit -f or nobody reads the pipe any more. So the library's output never ends a process.
#include <csignal>
#include <ctime>
#include <initializer_list>

namespace anello {

class WriteSignalsHeld {
 public:
  WriteSignalsHeld() {
    ::sigemptyset(&held_);
    ::sigaddset(&held_, SIGXFSZ);
    ::sigaddset(&held_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {
      if (::sigismember(&pending, signal) == 1) ::sigdelset(&held_, signal);  // it was already blocked by other code
    }
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~WriteSignalsHeld() {
    const timespec at_once{0, 0};
    while (::sigtimedwait(&held_, nullptr, &at_once) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WriteSignalsHeld(const WriteSignalsHeld&) = delete;
  WriteSignalsHeld& operator=(const WriteSignalsHeld&) = delete;

 private:
  sigset_t held_, before_;
};

}  // namespace anello
