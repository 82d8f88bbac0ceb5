#pragma once
// What becomes of operations and communicators. Whichever part of the executor finds it out says so here; the context
// does what follows. Requires the rank's lock.
#include "base/error.h"
#include "control/job.h"

#include <new>
#include <string>

namespace anello::executor {

class Group;
struct Operation;

class Outcomes {
 public:
  // It has ended, well or with an error.
  virtual void finish(Operation& operation, const Error& error = {}) = 0;
  // First error of the group: ends all its operations. tell: the other ranks do not know yet.
  virtual void fail(Group& group, const Error& error, bool tell) = 0;
  // Of all communicators that have the rank.
  virtual void fail_all_with(int world, const Error& error, bool tell) = 0;
  // Of an operation of the group, for want of memory: nobody could go on with what it was in the middle of.
  virtual void fail_for_memory(Group& group) = 0;

  // Runs body, whose want of memory ends the communicator.
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

// There is no memory for that on this rank.
Error no_memory(const control::Job& job, const std::string& what);
inline constexpr const char* kOperationNeeds = "what an operation needs";

}  // namespace anello::executor
