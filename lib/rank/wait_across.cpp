#include "rank/wait_across.h"

#include "base/bell.h"

#include <algorithm>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

namespace anello::executor {
namespace {

// Contexts whose operations end ring it, while it lives.
class Bell {
 public:
  explicit Bell(const std::vector<Awaited>& awaited) : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!descriptor_) throw system_error("eventfd", errno);
    for (const Awaited& each : awaited) {
      if (std::find(contexts_.begin(), contexts_.end(), each.context) != contexts_.end()) continue;
      contexts_.push_back(each.context);
      each.context->tell_of_completion(descriptor_.get());
    }
  }
  ~Bell() {
    for (Context* context : contexts_) context->tell_no_more(descriptor_.get());
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void sleep(int milliseconds) {
    for (Context* context : contexts_) context->leave_to_background();
    pollfd interest{descriptor_.get(), POLLIN, 0};
    if (::poll(&interest, 1, milliseconds) > 0) silence(descriptor_.get());
  }

 private:
  UniqueFd descriptor_;
  std::vector<Context*> contexts_;
};

}  // namespace

void wait_across(const std::vector<Awaited>& awaited, const std::function<bool()>& or_else) {
  Bell bell(awaited);
  constexpr int kBusyTurns = 500;
  for (int turn = 0;; ++turn) {
    for (const Awaited& each : awaited) {
      if (each.context->test_with_deadline(*each.operation)) return;
    }
    if (or_else && or_else()) return;
    if (turn < kBusyTurns) {
      sched_yield();
    } else {
      bell.sleep(or_else ? 1 : 50);
    }
  }
}

}  // namespace anello::executor
