#include "perf/buffer.h"

#include "perf/device.h"
#include "perf/failure.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace perf {

const char* memory_name(Memory memory) {
  switch (memory) {
    case Memory::allocated: return "malloc";
    case Memory::mapped: return "mapped";
    case Memory::registered: return "registered";
    case Memory::device: return "device";
  }
  return "unknown";
}

Buffer::Buffer(std::size_t bytes, Memory memory, anello_comm_t comm) : room_(bytes + 3 * kPage), memory_(memory) {
  void* base = nullptr;
  if (memory == Memory::mapped) {
    check(anello_mem_alloc(room_, &base), "anello_mem_alloc", ANELLO_COMM_NULL);
  } else {
    base = mmap(nullptr, room_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
      throw Failure("no memory for a buffer of " + std::to_string(bytes) + " bytes; take a smaller -e");
  }
  base_ = static_cast<unsigned char*>(base);
  if (memory == Memory::device) device_ = static_cast<unsigned char*>(allocate_on_device(room_));
  if (memory == Memory::registered) {
    check(anello_window_register(base_, room_, comm, &window_), "anello_window_register", comm);
  }
  guard(bytes);
}

void Buffer::put() const {
  if (device_ != nullptr) copy_to_device(device_, base_, room_);
}

void Buffer::take() const {
  if (device_ != nullptr) copy_from_device(base_, device_, room_);
}

Buffer::~Buffer() {
  if (device_ != nullptr) free_on_device(device_);
  anello_window_free(&window_);  // a failure here has already been reported
  if (memory_ == Memory::mapped) {
    anello_mem_free(base_);
  } else {
    munmap(base_, room_);
  }
}

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
