#pragma once
// Keys and what is computed with them: HMAC-SHA256 and random bytes, from OpenSSL's libcrypto and the kernel.
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

namespace anello::control {

using Bytes = std::span<const std::byte>;
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// 256 bits that copies share, in memory that no core dump contains, wiped with the last of them.
class Key {
 public:
  Key() = default;  // all zero
  explicit Key(std::span<const std::byte, 32> bytes);
  std::span<const std::byte, 32> bytes() const;

 private:
  std::shared_ptr<const std::byte> bytes_;
};

// Wipes what stood for a moment where core dumps reach, however that ends.
class Wiped {
 public:
  explicit Wiped(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~Wiped();
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;

 private:
  std::span<std::byte> bytes_;
};

using Digest = std::array<std::byte, 32>;

// Of all parts, one after the other.
Digest hmac(const Key& key, std::initializer_list<Bytes> parts);
// A key for one purpose: what is known of it tells nothing about the key that it came from.
Key derive(const Key& key, std::string_view label, Bytes context);
// A key from text of any length.
Key key_from(std::string_view label, Bytes material);
bool equal(Bytes a, Bytes b);  // in constant time

// From the kernel. Throws Error.
void fill_random(std::span<std::byte> into);
std::uint64_t random_number();

}  // namespace anello::control
