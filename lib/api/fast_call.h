#pragma once
// The fast path into a blocking call: it checks only the arguments that try_fast() itself reads, and makes no call
// struct.
#include "api/call_group.h"
#include "api/tables.h"

#include <atomic>

namespace anello::api {

inline constexpr int kNotTaken = -1;  // no anello_result_t

// The result of try_fast(communicator), or of at_length() if that is kNotTaken or if the state of this thread or
// process must be checked first.
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
