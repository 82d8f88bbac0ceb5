#pragma once
// Frames on authenticated connections: 8 bytes (length, kind), then the body; and the checked reading and writing of
// bodies. Little-endian, fixed widths; strings carry their length. Nothing is allocated from a length that was not
// compared with a bound first, and a reader never leaves its body.
#include "base/error.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace anello::control {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian, and so is memory here");

inline constexpr std::size_t kMaxBody = 64 * 1024;
inline constexpr std::size_t kMaxText = 4096;

struct Frame {
  std::uint16_t kind = 0;
  std::string body;
};

class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  // Cut at kMaxText.
  Writer& put_text(std::string_view text) {
    text = text.substr(0, kMaxText);
    put(static_cast<std::uint16_t>(text.size()));
    body_.append(text);
    return *this;
  }
  // Requires: no longer than the reader's bound.
  Writer& put_long_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    body_.append(text);
    return *this;
  }
  Writer& put_bytes(std::span<const std::byte> bytes) {
    body_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  std::size_t size() const { return body_.size(); }
  Frame frame(std::uint16_t kind) { return {kind, std::move(body_)}; }

 private:
  std::string body_;
};

// Throws Error (ANELLO_ERR_CORRUPT) for a body that is too short or has an impossible value.
class Reader {
 public:
  explicit Reader(std::string_view body) : rest_(body) {}

  template <class T>
  T take() {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    T value;
    std::memcpy(&value, take_raw(sizeof value), sizeof value);
    return value;
  }
  // A number between low and high.
  template <class T>
  T take_in(T low, T high) {
    const T value = take<T>();
    if (value < low || value > high) throw corrupt();
    return value;
  }
  std::string take_text() {
    const std::size_t size = take_in<std::uint16_t>(0, kMaxText);
    return {take_raw(size), size};
  }
  std::string take_long_text(std::size_t most) {
    const std::size_t size = take_in<std::uint32_t>(0, static_cast<std::uint32_t>(most));
    return {take_raw(size), size};
  }
  void take_bytes(std::span<std::byte> into) { std::memcpy(into.data(), take_raw(into.size()), into.size()); }
  std::size_t left() const { return rest_.size(); }
  void end() const {
    if (!rest_.empty()) throw corrupt();
  }
  static Error corrupt() { return {ANELLO_ERR_CORRUPT, "a peer sent an impossible control message"}; }

 private:
  const char* take_raw(std::size_t bytes) {
    if (bytes > rest_.size()) throw corrupt();
    const char* const at = rest_.data();
    rest_.remove_prefix(bytes);
    return at;
  }
  std::string_view rest_;
};

void put_error(Writer& writer, const Error& error);
Error take_error(Reader& reader);

}  // namespace anello::control
