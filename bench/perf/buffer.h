#pragma once
// Page-aligned memory with a guard on either side, which tells when something was written beside it.
#include <cstddef>
#include <cstdint>

namespace perf {

class Buffer {
 public:
  // Throws std::bad_alloc.
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* data() const { return base_ + kPage; }
  // Both guards now stand directly beside the first `bytes` bytes of data().
  void guard(std::size_t bytes);
  // Bytes of the guards that have changed since.
  std::int64_t damage() const;

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kMark = 0xa5;

  unsigned char* base_;
  std::size_t mapped_;
  std::size_t guarded_ = 0;
};

}  // namespace perf
