#pragma once
// The fast path into a blocking call: no argument is checked but what try_fast() looks at itself, and no call struct is
// made.
#include "api/call_group.h"
#include "api/tables.h"

#include <atomic>

namespace anello::api {

inline constexpr int kNotTaken = -1;  // no anello_result_t

// What try_fast(communicator) returns; of at_length() where that is kNotTaken, or where something about this thread or
// process has to be looked at first.
template <class Try, class AtLength>
[[gnu::always_inline]] inline anello_result_t on_fast_path(anello_comm_t comm, Try&& try_fast,
                                                           AtLength&& at_length) noexcept {
  if (!hooks_are_set.load(std::memory_order_relaxed) && CallGroup::current() == nullptr && !refuses_here()) {
    try {
      const Communicators::Use use(communicators(), number(comm));
      const int result = use ? try_fast(**use) : kNotTaken;
      if (result != kNotTaken) return static_cast<anello_result_t>(result);
    } catch (...) {
      return failed(comm, caught());
    }
  }
  return at_length();
}

}  // namespace anello::api
