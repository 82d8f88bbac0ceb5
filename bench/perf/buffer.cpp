#include "perf/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace perf {

Buffer::Buffer(std::size_t bytes) : mapped_(bytes + 3 * kPage) {
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<unsigned char*>(memory);
  guard(bytes);
}

Buffer::~Buffer() { munmap(base_, mapped_); }

void Buffer::guard(std::size_t bytes) {
  guarded_ = bytes;
  std::memset(data() - kGuard, kMark, kGuard);
  std::memset(data() + bytes, kMark, kGuard);
}

std::int64_t Buffer::damage() const {
  const auto changed = [](unsigned char byte) { return byte != kMark; };
  return std::count_if(data() - kGuard, data(), changed) +
         std::count_if(data() + guarded_, data() + guarded_ + kGuard, changed);
}

}  // namespace perf
