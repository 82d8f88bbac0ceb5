#pragma once
// What a fuzzer gives, taken apart from the front; zeros once it has come to its end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace anello::fuzz {

class Input {
 public:
  Input(const std::uint8_t* bytes, std::size_t count) : rest_(reinterpret_cast<const std::byte*>(bytes), count) {}

  template <class T>
  T take() {
    T value{};
    const auto part = take_bytes(sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }
  int below(int limit) { return static_cast<int>(take<std::uint16_t>() % static_cast<unsigned>(limit)); }
  std::span<const std::byte> take_bytes(std::size_t most) {
    const auto part = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(part.size());
    return part;
  }
  std::span<const std::byte> rest() { return take_bytes(rest_.size()); }
  std::string_view text() {
    const auto all = rest();
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }
  bool done() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace anello::fuzz
