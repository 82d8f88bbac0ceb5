#pragma once
// Keys, HMAC-SHA256 and random bytes, from OpenSSL's libcrypto and the kernel.
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

// A key of 256 bits that copies share, in memory that no core dump contains. It is wiped with the last copy.
class Key {
 public:
  Key() = default;  // all zero
  explicit Key(std::span<const std::byte, 32> bytes);
  std::span<const std::byte, 32> bytes() const;

 private:
  std::shared_ptr<const std::byte> bytes_;
};

// Wipes temporary secrets in memory that core dumps contain, on every path.
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

// The HMAC of all parts, one after the other.
Digest hmac(const Key& key, std::initializer_list<Bytes> parts);
// A key for one purpose. It reveals nothing about the key from which it is derived.
Key derive(const Key& key, std::string_view label, Bytes context);
// A key from text of any length.
Key key_from(std::string_view label, Bytes material);
bool equal(Bytes a, Bytes b);  // in constant time

// From the kernel. Throws Error.
void fill_random(std::span<std::byte> into);
std::uint64_t random_number();

}  // namespace anello::control
