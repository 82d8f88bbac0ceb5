#pragma once
// The operations in flight for a request.
#include "api/hooks.h"
#include "executor/operation.h"

#include <atomic>
#include <memory>
#include <utility>

namespace anello::api {

// An operation, and the hooks that get its end.
struct Posted {
  Posted() = default;
  explicit Posted(executor::Operation* begun, std::unique_ptr<ReportedCall> to_tell = nullptr)
      : reported(std::move(to_tell)), operation(begun) {}
  Posted(Posted&& other) noexcept
      : reported(std::move(other.reported)), operation(other.operation.exchange(nullptr, std::memory_order_acq_rel)) {}
  Posted& operator=(Posted&& other) noexcept {
    reported = std::move(other.reported);
    operation.store(other.operation.exchange(nullptr, std::memory_order_acq_rel), std::memory_order_release);
    return *this;
  }

  std::unique_ptr<ReportedCall> reported;
  std::atomic<executor::Operation*> operation{nullptr};  // null: none, or complete
};

// Done when both are done.
struct Work {
  Posted send;  // only in a sendrecv
  Posted call;  // in a sendrecv its receive; assigned last, so that a thread that sees it also sees the send

  // The first operation that is not done, otherwise any; null if there is none.
  executor::Operation* awaited() const {
    executor::Operation* const first = call.operation.load(std::memory_order_acquire);
    executor::Operation* const second = send.operation.load(std::memory_order_acquire);
    return first == nullptr || second == nullptr || !first->done.load(std::memory_order_acquire) ? first : second;
  }
  // If several threads complete the same request, one of them gets it.
  Work take() {
    Work taken;
    taken.call = std::move(call);
    if (taken.call.operation.load(std::memory_order_relaxed) != nullptr) taken.send = std::move(send);
    return taken;
  }
  bool is_pair() const { return send.operation.load(std::memory_order_relaxed) != nullptr; }
};

}  // namespace anello::api
