#pragma once
// Page-aligned memory with a guard on either side, which shows writes outside the buffer.
#include <anello/anello.h>

#include <cstddef>
#include <cstdint>

namespace perf {

// malloc'ed: private to this process. mapped: from anello_mem_alloc, which all ranks of the host reach. registered:
// memory of this process that is registered as a window. device: of a CUDA device, with a copy on the host.
enum class Memory { allocated, mapped, registered, device };
const char* memory_name(Memory memory);  // the name on the command line

class Buffer {
 public:
  // Collective over comm for registered memory. Throws Failure.
  Buffer(std::size_t bytes, Memory memory, anello_comm_t comm);
  ~Buffer();  // likewise
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // The host's memory, or its copy of the device's.
  unsigned char* data() const { return base_ + kPage; }
  // What calls get.
  unsigned char* address() const { return (device_ != nullptr ? device_ : base_) + kPage; }
  // Bring the device's memory, guards too, and the host's copy together. They do nothing for other memory.
  void put() const;
  void take() const;
  // Places both guards directly beside the first `bytes` bytes of data().
  void guard(std::size_t bytes);
  // The number of guard bytes that have changed since.
  std::int64_t damage() const;

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kMark = 0xa5;

  const std::size_t room_;
  const Memory memory_;
  anello_window_t window_ = ANELLO_WINDOW_NULL;
  unsigned char* base_ = nullptr;
  unsigned char* device_ = nullptr;
  std::size_t guarded_ = 0;
};

}  // namespace perf
