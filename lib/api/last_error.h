#pragma once
// This thread's last failure, and the one place where exceptions end.
#include "base/error.h"
#include "base/label.h"
#include "base/uncancelled.h"

#include <anello/anello.h>

#include <cstdint>
#include <string>

namespace anello::api {

// The current exception, in a catch clause.
Error caught() noexcept;
// The call that failed.
struct FailedCall {
  int kind = -1;  // none
  std::int64_t sequence = -1;
  Label label;
};
struct LastError {
  Error error;
  FailedCall call;
};

// Stores it for anello_last_error(comm) on this thread; returns the code.
anello_result_t failed(anello_comm_t comm, const Error& error, const FailedCall& call = {}) noexcept;
// The stored error; nullptr if the last failure was not on comm.
const LastError* remembered(anello_comm_t comm) noexcept;
// Keeps text until the thread's next call.
const char* keep_text(const std::string& text) noexcept;

// Runs body, which returns an anello_result_t; turns its exceptions into a code and a text.
template <class Body>
anello_result_t guard(anello_comm_t comm, Body&& body) noexcept {
  const Uncancelled whole;
  try {
    return body();
  } catch (...) {
    return failed(comm, caught());
  }
}

}  // namespace anello::api
