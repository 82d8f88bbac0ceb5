#pragma once
// An error as a value. Setup code throws it; the data path stores it in the operation that it ended. Neither logs it:
// code that drops an error logs it. The text names the call, the peer, its host, the cause and what to do.
#include <anello/anello.h>

#include <exception>
#include <string>
#include <utility>

namespace anello {

class Error : public std::exception {
 public:
  Error() = default;  // ANELLO_OK: no error
  Error(anello_result_t code, std::string text, int peer = -1) : code_(code), peer_(peer), text_(std::move(text)) {}

  anello_result_t code() const { return code_; }
  int peer() const { return peer_; }  // the world rank that it is about, or -1
  const std::string& text() const { return text_; }
  const char* what() const noexcept override { return text_.c_str(); }
  explicit operator bool() const { return code_ != ANELLO_OK; }

 private:
  anello_result_t code_ = ANELLO_OK;
  int peer_ = -1;
  std::string text_;
};

// The enumerator's name: "ANELLO_ERR_TIMEOUT".
const char* result_name(anello_result_t result);
// "connect: Connection refused (errno 111)": for text that goes into an Error.
std::string system_text(const char* call, int error_number);
// An ANELLO_ERR_SYSTEM with that text.
Error system_error(const char* call, int error_number);

}  // namespace anello
