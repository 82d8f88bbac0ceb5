#pragma once
// How operations and communicators end. Each part of the executor reports an end here; the context acts on it. Requires
// the rank's lock.
#include "base/error.h"
#include "control/job.h"

#include <new>
#include <string>

namespace anello::executor {

class Group;
struct Operation;

class Outcomes {
 public:
  // The operation has ended, well or with an error.
  virtual void finish(Operation& operation, const Error& error = {}) = 0;
  // Reports the group's first error, which ends all its operations. tell: the other ranks do not know yet.
  virtual void fail(Group& group, const Error& error, bool tell) = 0;
  // Fails all communicators that have the rank.
  virtual void fail_all_with(int world, const Error& error, bool tell) = 0;
  // Fails the group because an operation has no memory: no thread could finish its interrupted work.
  virtual void fail_for_memory(Group& group) = 0;

  // An operation that waited for its data, or behind one that did, may begin.
  virtual void may_start(Operation& operation) = 0;
  // The call of a graph that is replayed takes its place in the order, and begins.
  virtual void may_enter(Operation& operation, recorder::CallRecord& record) = 0;
  // The result of an operation that has run is in its device's memory or, with an error, will not come there.
  virtual void delivered(Operation& operation, const Error& error) = 0;

  // Runs body; if body finds no memory, the communicator fails.
  template <class Body>
  void with_memory(Group& group, Body&& body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      fail_for_memory(group);
    }
  }

 protected:
  ~Outcomes() = default;
};

// The error of a rank that has no memory for `what`.
Error no_memory(const control::Job& job, const std::string& what);
inline constexpr const char* kOperationNeeds = "what an operation needs";

}  // namespace anello::executor
