#include "memory/private_memory.h"

#include "base/text.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>

namespace anello::memory {

std::string why_not_private(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + bytes;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here >= begin && here < end) return "it is this thread's stack";
  std::ifstream maps("/proc/self/maps");
  if (!maps) return "/proc/self/maps cannot be read";
  std::uintptr_t known = begin;  // the range is private up to here
  std::string line;
  while (known < end && std::getline(maps, line)) {
    std::uintptr_t from = 0, to = 0;
    char rights[5] = "";
    std::uint64_t inode = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*s %" SCNu64 " %n", &from, &to, rights, &inode,
                    &name) < 4) {
      return "/proc/self/maps cannot be parsed";
    }
    if (to <= known) continue;
    if (from > known) break;
    const std::string what = line.substr(std::size_t(name));
    if (rights[0] != 'r' || rights[1] != 'w') return "some of it may not be read and written";
    if (rights[3] != 'p') return "some of it is shared with other processes";
    if (inode != 0) return text("some of it belongs to a file, ", what);
    if (what == "[stack]") return "some of it is the stack";
    known = to;
  }
  return known >= end ? "" : "some of it is not mapped";
}

}  // namespace anello::memory
