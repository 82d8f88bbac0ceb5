#include "weak_memory/races.h"

#include <algorithm>

namespace anello::weak_memory {

const Access* Races::touch(int thread, const Clock& now, std::uintptr_t at, std::size_t bytes, bool writes,
                           bool is_atomic, std::uintptr_t code) {
  const Access* race = nullptr;
  while (bytes > 0) {
    const std::size_t offset = at % kLine, part = std::min(bytes, kLine - offset);
    std::vector<Access>& line = lines_[at / kLine];
    Access* same = nullptr;
    for (Access& each : line) {
      if (each.offset >= offset + part || offset >= std::size_t(each.offset) + each.bytes) continue;
      if (each.thread == thread) {
        if (each.offset == offset && each.bytes == part && each.writes == writes && each.is_atomic == is_atomic)
          same = &each;
        continue;
      }
      if ((writes || each.writes) && !(is_atomic && each.is_atomic) && now[each.thread] < each.when) race = &each;
    }
    if (same != nullptr) {
      same->when = now[std::size_t(thread)];
      same->code = code;
    } else if (race == nullptr) {
      if (line.empty()) used_.push_back(at / kLine);
      line.push_back({code, now[std::size_t(thread)], std::uint8_t(offset), std::uint8_t(part), std::uint8_t(thread),
                      writes, is_atomic});
    }
    at += part;
    bytes -= part;
  }
  return race;
}

}  // namespace anello::weak_memory
