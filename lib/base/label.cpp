#include "base/label.h"

#include <cstring>

namespace anello {

void Label::copy(const char* text) {
  std::size_t length = strnlen(text, kMost + 1);
  if (length > kMost) {
    length = kMost;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  for (std::size_t i = 0; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    text_[i] = byte < 0x20 || byte == 0x7f || byte == '"' || byte == '\\' ? '?' : text[i];
  }
  text_[length] = '\0';
}

std::string Label::quoted() const { return empty() ? std::string() : std::string(" \"") + text_ + '"'; }

}  // namespace anello
