#pragma once
// A caller's name for a call, truncated to the length that is kept. Texts put it in quotes, so it has no control
// characters, quotes or backslashes.
#include <cstddef>
#include <string>

namespace anello {

class Label {
 public:
  static constexpr std::size_t kMost = 63;  // bytes

  Label() = default;
  explicit Label(const char* text) { set(text); }
  // nullptr: none. A text that is too long is cut between two characters of UTF-8.
  void set(const char* text) {
    text_[0] = '\0';
    if (text != nullptr) copy(text);
  }
  const char* c_str() const { return text_; }
  bool empty() const { return text_[0] == '\0'; }
  // The label in quotes with a space before it, as texts have it after a call; "" for none.
  std::string quoted() const;

 private:
  void copy(const char* text);
  char text_[kMost + 1] = {};
};

}  // namespace anello
