// A ring whose other end writes what it likes, where it likes: control words, slots and payload, before and between the
// looks of this end, which reads and writes through it.
#include "base/error.h"
#include "fuzz/input.h"
#include "transports/shm/endpoint.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>

using namespace anello;
using namespace anello::memory;
using namespace anello::transport;

namespace {

// Between pages that nobody may touch, fresh for each input where it has been written to.
struct Memory {
  Memory() {
    const std::size_t page = 4096;
    void* const all =
        ::mmap(nullptr, layout.bytes() + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) std::abort();
    base = static_cast<std::byte*>(all) + page;
    if (::mprotect(base, layout.bytes(), PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  void clear() const { ::madvise(base, layout.bytes(), MADV_DONTNEED); }
  ArenaLayout layout{2, kMinRingBytes};
  std::byte* base;
  ArenaThreads threads;
  std::array<int, 2> wake{-1, -1};
};

void scribble(fuzz::Input& input, const Arena& arena, std::uint64_t near) {
  const bool incoming = input.below(2) != 0;
  RingControl& control = incoming ? arena.ring(1, 0) : arena.ring(0, 1);
  std::byte* const data = incoming ? arena.ring_data(1, 0) : arena.ring_data(0, 1);
  const auto position = [&] {
    return input.below(4) == 0 ? input.take<std::uint64_t>() : near + std::uint64_t(input.below(80)) * 64;
  };
  switch (input.below(5)) {
    case 0: control.tail.store(position() | std::uint64_t(input.below(2))); break;
    case 1: control.head.store(position()); break;
    case 2: {  // a slot, mostly a possible one
      auto& slot = *reinterpret_cast<Slot*>(data + std::size_t(input.below(int(kMinRingBytes / 64))) * 64);
      slot.bytes = input.below(4) == 0 ? input.take<std::uint32_t>() : std::uint32_t(input.below(6000));
      slot.kind = input.take<std::uint16_t>();
      slot.stamp.store(position() | std::uint64_t(input.below(4)));
      break;
    }
    default: {
      const std::size_t at = std::size_t(input.below(int(kMinRingBytes)));
      const auto bytes = input.take_bytes(std::min<std::size_t>(kMinRingBytes - at, 64));
      if (!bytes.empty()) std::memcpy(data + at, bytes.data(), bytes.size());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static const Memory& memory = *new Memory;
  static std::vector<std::byte>& payload = *new std::vector<std::byte>(kMaxFrameBytes);
  memory.clear();
  fuzz::Input input(bytes, count);
  const Arena arena(memory.base, memory.layout, 0, -1, memory.wake.data(), const_cast<ArenaThreads*>(&memory.threads));
  {
    ShmEndpoint end(arena, 1, 1);
    std::uint64_t near = 0;
    FrameHeader header;
    bool sending = false;
    while (!input.done()) {
      scribble(input, arena, near);
      switch (input.below(4)) {
        case 0:
          if (!sending) header.bytes = std::uint32_t(input.below(9000));
          sending = !end.send(header, payload.data());
          if (sending && !end.mid_frame()) sending = false;
          break;
        case 1: end.before_sleep(); break;
        default:
          if (const FrameHeader* const got = end.incoming()) {
            if (got->bytes > kMaxFrameBytes || end.remaining() > got->bytes) std::abort();
            near += 64;
            if (input.below(2) == 0) {
              if (end.receive(payload.data(), end.remaining()) > got->bytes) std::abort();
            } else {
              const auto view = end.view();
              if (view.size() > kMinRingBytes) std::abort();
              if (!view.empty()) std::memcpy(payload.data(), view.data(), view.size());
              end.consume(view.size());
            }
          }
      }
      if (end.failure() != nullptr) break;
    }
  }
  return 0;
}
