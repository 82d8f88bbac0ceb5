#pragma once
// The text of this thread's last failure, and the one place where exceptions end.
#include "base/error.h"

#include <anello/anello.h>

#include <string>

namespace anello::api {

// What is being thrown, in a catch clause.
Error caught() noexcept;
// Remembers the text for anello_last_error(comm) on this thread; returns the code.
anello_result_t failed(anello_comm_t comm, const Error& error) noexcept;
// The remembered text; nullptr when the last failure was not on comm.
const char* remembered(anello_comm_t comm) noexcept;
// Keeps text until the thread's next call.
const char* keep_text(const std::string& text) noexcept;

// Runs body, which returns an anello_result_t; what it throws becomes a code and a text.
template <class Body>
anello_result_t guard(anello_comm_t comm, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return failed(comm, caught());
  }
}

}  // namespace anello::api
