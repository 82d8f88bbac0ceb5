#pragma once
// A value that one thread at a time replaces and others read, also from another process, without a lock.
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace anello::recorder {

template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void publish(const T& value) {
    const std::uint32_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    std::array<std::uint64_t, kWords> words{};
    std::memcpy(words.data(), &value, sizeof value);
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }
  // Nothing: there is none yet, or it changes all the time.
  std::optional<T> read() const {
    constexpr int kTries = 100;
    for (int tries = 0; tries < kTries; ++tries) {
      const std::uint32_t version = version_.load(std::memory_order_acquire);
      if (version == 0) return std::nullopt;
      std::array<std::uint64_t, kWords> words;
      for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 != 0 || version_.load(std::memory_order_relaxed) != version) continue;
      T value;
      std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
      return value;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kWords = (sizeof(T) + 7) / 8;
  std::atomic<std::uint32_t> version_{0};  // odd: it is being written
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

}  // namespace anello::recorder
