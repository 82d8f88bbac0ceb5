#pragma once
// text("rank ", 3, " left"): one string from values that a stream can print.
#include <sstream>
#include <string>

namespace anello {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace anello
