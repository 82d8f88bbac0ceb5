#include "anellorun/signals.h"

#include <unistd.h>

namespace anellorun {

Signals::Signals(std::span<const int> taken, std::initializer_list<int> ignored) {
  sigset_t watched, blocked, before;
  sigemptyset(&watched);
  for (const int signal : taken) sigaddset(&watched, signal);
  sigaddset(&watched, SIGCHLD);
  blocked = watched;
  for (const int signal : ignored) sigaddset(&blocked, signal);
  if (sigprocmask(SIG_BLOCK, &blocked, &before) != 0) fail("sigprocmask");
  static const sigset_t original = before;
  original_ = &original;
  descriptor_ = Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) fail("signalfd");
}

std::optional<signalfd_siginfo> Signals::next() {
  signalfd_siginfo info{};
  if (read(descriptor_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return info;
}

}  // namespace anellorun
