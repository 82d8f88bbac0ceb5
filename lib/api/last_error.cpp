#include "api/last_error.h"

#include <new>

namespace anello::api {

namespace {

struct Last {
  anello_comm_t comm = ANELLO_COMM_NULL;
  bool any = false;
  LastError what;
  std::string kept;
};
thread_local Last last;

}  // namespace

Error caught() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ANELLO_ERR_RESOURCE, "out of memory"};  // short enough to need no allocation
  } catch (const std::exception& error) {
    return {ANELLO_ERR_INTERNAL, error.what()};
  } catch (...) {
    return {ANELLO_ERR_INTERNAL, "unknown exception"};
  }
}

anello_result_t failed(anello_comm_t comm, const Error& error, const FailedCall& call) noexcept {
  try {
    last.what = {error, call};
  } catch (...) {
    last.what = {Error(error.code(), "", error.peer()), call};  // out of memory for the text: only the code remains
  }
  last.comm = comm;
  last.any = true;
  return error.code();
}

const LastError* remembered(anello_comm_t comm) noexcept {
  return last.any && last.comm == comm ? &last.what : nullptr;
}

const char* keep_text(const std::string& text) noexcept {
  try {
    last.kept = text;
  } catch (...) {
    return "";
  }
  return last.kept.c_str();
}

}  // namespace anello::api
