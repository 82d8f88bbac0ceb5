#include "control/secret.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

namespace anello::control {

namespace {

constexpr std::size_t kKeyBytes = 32;

void initialize() {
  // OpenSSL's heap for secrets lies in pages that core dumps leave out. A rank has three or four keys; keys that do not
  // fit are in ordinary memory.
  constexpr std::size_t kHeapBytes = 128 * 1024;
  static const bool initialized = [] {
    // A process may exit while its service thread is in here: OpenSSL's state stays until the process is gone.
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) != 1) return false;
    CRYPTO_secure_malloc_init(kHeapBytes, kKeyBytes);
    return true;
  }();
  if (!initialized) throw Error(ANELLO_ERR_INTERNAL, "OpenSSL cannot be initialized");
}

}  // namespace

Key::Key(std::span<const std::byte, 32> bytes) {
  initialize();
  void* at = OPENSSL_secure_malloc(kKeyBytes);
  if (at == nullptr) at = OPENSSL_malloc(kKeyBytes);
  if (at == nullptr) throw Error(ANELLO_ERR_RESOURCE, "no memory for a key");
  std::memcpy(at, bytes.data(), kKeyBytes);
  bytes_ = {static_cast<const std::byte*>(at),
            [](const std::byte* held) { OPENSSL_secure_clear_free(const_cast<std::byte*>(held), kKeyBytes); }};
}

std::span<const std::byte, 32> Key::bytes() const {
  static constexpr std::array<std::byte, kKeyBytes> zero{};
  if (!bytes_) return zero;
  return std::span<const std::byte, kKeyBytes>(bytes_.get(), kKeyBytes);
}

Wiped::~Wiped() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Digest hmac(const Key& key, std::initializer_list<Bytes> parts) {
  initialize();
  // The parts are short (a handshake's transcript), so one buffer is simpler than OpenSSL's streaming interface.
  std::vector<std::byte> whole;
  for (const Bytes part : parts) whole.insert(whole.end(), part.begin(), part.end());
  Digest digest;
  unsigned int length = 0;
  const unsigned char* const done = HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()),
                                         reinterpret_cast<const unsigned char*>(whole.data()), whole.size(),
                                         reinterpret_cast<unsigned char*>(digest.data()), &length);
  OPENSSL_cleanse(whole.data(), whole.size());
  if (done == nullptr || length != digest.size()) throw Error(ANELLO_ERR_INTERNAL, "HMAC-SHA256 is not available");
  return digest;
}

Key derive(const Key& key, std::string_view label, Bytes context) {
  const std::byte separator{0};
  Digest digest = hmac(key, {bytes_of(label), {&separator, 1}, context});
  const Wiped wiped(digest);
  return Key(digest);
}

Key key_from(std::string_view label, Bytes material) { return derive(Key{}, label, material); }

bool equal(Bytes a, Bytes b) { return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

void fill_random(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::getrandom(into.data(), into.size(), 0);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      throw system_error("getrandom", errno);
    }
  }
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace anello::control
