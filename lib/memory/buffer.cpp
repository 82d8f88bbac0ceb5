#include "memory/buffer.h"

namespace anello::memory {

Buffer Buffers::find(const void* address, std::size_t bytes) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  const std::uint64_t version = regions_version();
  for (const Known& known : known_) {
    if (known.buffer.at == at && known.buffer.bytes >= bytes && known.version == version) {
      Buffer found = known.buffer;
      found.bytes = bytes;
      return found;
    }
  }
  const Buffer found{at, bytes, Space{}, find_region(address, bytes)};
  known_[next_++ % known_.size()] = {found, version};
  return found;
}

}  // namespace anello::memory
