#include "transports/shm/remote_memory.h"

#include "base/log.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace anello::transport {

ProcessesMemory::ProcessesMemory(memory::Arena arena, KeyRequest request)
    : arena_(std::move(arena)),
      request_(std::move(request)),
      readable_(std::size_t(arena_.ranks()), Readable::untried) {}

RemoteMemory::State ProcessesMemory::prepare(const RemotePeer& peer, std::uint64_t key) {
  if (key != 0) return regions_.look_up(key, [&] { request_(peer.world, key); });
  Readable& known = readable_[std::size_t(peer.local)];
  if (known == Readable::untried) {
    known = memory::can_read(sample_of(peer)) ? Readable::yes : Readable::no;
    if (known == Readable::no)
      log::info(-1, "the memory of rank ", peer.world, " cannot be read (", std::strerror(errno), ")");
  }
  return known == Readable::yes ? State::ready : State::refused;
}

int ProcessesMemory::find_way(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes, Way* way) {
  if (at.key == 0) {
    way->process = &sample_of(peer);
    return 0;
  }
  std::shared_ptr<memory::RegionMapping> mapping;
  way->mapped = regions_.at(at.key, std::size_t(at.offset), bytes, &mapping);
  way->kept = std::move(mapping);
  return way->mapped != nullptr ? 0 : EFAULT;
}

}  // namespace anello::transport
