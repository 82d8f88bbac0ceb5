#pragma once
// Page-aligned memory with a guard on either side, which tells when something was written beside it.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>

namespace perf {

// malloc'ed: of this process alone. mapped: of anello_mem_alloc, which all ranks of the host reach. registered: of this
// process, made known to all as a window.
enum class Memory { allocated, mapped, registered };
const char* memory_name(Memory memory);  // as on the command line

class Buffer {
 public:
  // Collective over comm for registered memory. Throws Failure.
  Buffer(std::size_t bytes, Memory memory, anello_comm_t comm);
  ~Buffer();  // likewise
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

  const std::size_t room_;
  const Memory memory_;
  anello_window_t window_ = ANELLO_WINDOW_NULL;
  unsigned char* base_ = nullptr;
  std::size_t guarded_ = 0;
};

}  // namespace perf
