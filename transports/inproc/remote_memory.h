#pragma once
// Remote memory between threads of one process: they use each other's addresses.
#include "transports/host_memory.h"

namespace anello::transport {

class ThreadMemory final : public HostMemory {
 public:
  bool shares_addresses() const override { return true; }
  // The lane hands over a long message in place.
  bool spares_the_lane() const override { return false; }
  State prepare(const RemotePeer& /*peer*/, std::uint64_t /*key*/) override { return State::ready; }

 private:
  int find_way(const RemotePeer& /*peer*/, const RemoteAddress& at, std::size_t /*bytes*/, Way* way) override {
    way->mapped = reinterpret_cast<std::byte*>(at.address);
    return 0;
  }
};

}  // namespace anello::transport
