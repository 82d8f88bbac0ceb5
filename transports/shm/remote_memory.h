#pragma once
// The memory of processes of one host. This process maps regions once control has brought their memory, and reads
// memory outside regions by system call if the kernel allows it.
#include "memory/arena.h"
#include "memory/region_cache.h"
#include "transports/host_memory.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace anello::transport {

// Asks a rank of the job for the memory behind a key; answered() brings it.
using KeyRequest = std::function<void(int world, std::uint64_t key)>;

class ProcessesMemory final : public HostMemory {
 public:
  ProcessesMemory(memory::Arena arena, KeyRequest request);

  State prepare(const RemotePeer& peer, std::uint64_t key) override;
  void answered(std::uint64_t key, memory::PassedRange memory) override { regions_.answered(key, std::move(memory)); }
  const char* call() const override { return "process_vm_readv"; }

 private:
  int find_way(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes, Way* way) override;
  const memory::Sample& sample_of(const RemotePeer& peer) const { return arena_.inbox(peer.local).sample; }

  const memory::Arena arena_;
  const KeyRequest request_;
  memory::RegionCache regions_;
  enum class Readable : std::uint8_t { untried, yes, no };
  std::vector<Readable> readable_;  // each rank's process, by its index in the arena
};

}  // namespace anello::transport
