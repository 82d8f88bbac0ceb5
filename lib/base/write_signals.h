#pragma once
// While it lives, a write of this thread that the kernel answers with a signal, since the file would be longer than
// ulimit -f allows or nobody reads the pipe any more, fails and does nothing else: what the library has to say ends no
// process.
#include <csignal>
#include <ctime>

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
      if (::sigismember(&pending, signal) == 1) ::sigdelset(&held_, signal);  // somebody else's: it is held already
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
