#include "progress/completion_bells.h"

#include "base/bell.h"
#include "base/error.h"

#include <algorithm>
#include <cerrno>

#include <sys/eventfd.h>

namespace anello::progress {

void CompletionBells::remove(int descriptor) { bells_.erase(std::find(bells_.begin(), bells_.end(), descriptor)); }

int CompletionBells::own() {
  if (!own_) {
    UniqueFd made(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!made) throw system_error("eventfd", errno);
    bells_.push_back(made.get());
    own_ = std::move(made);
  }
  return own_.get();
}

void CompletionBells::silence_own() {
  if (own_) silence(own_.get());
}

void CompletionBells::ring_all() const {
  for (const int descriptor : bells_) ring(descriptor);
}

}  // namespace anello::progress
