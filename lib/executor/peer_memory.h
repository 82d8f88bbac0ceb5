#pragma once
// How this rank gets at other ranks' memory where they cannot address it: a region that it has mapped, or a system call
// that reads another process. Requires the rank's lock.
#include "control/job.h"
#include "memory/process_memory.h"
#include "memory/region_cache.h"
#include "messaging/rendezvous.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::executor {

class PeerMemory {
 public:
  explicit PeerMemory(control::Job& job);

  // Where a buffer of this rank's lies.
  memory::RegionSpot own(const void* address, std::size_t bytes) { return regions_.own(address, bytes); }
  // What is known of a peer's region. The first time its descriptor is asked for.
  memory::RegionCache::State look_up(int world, std::uint64_t region) {
    return regions_.look_up(region, [&] { job_.request_region(world, region); });
  }
  // It has come; memory empty: there is none.
  void answered(std::uint64_t region, UniqueFd memory) { regions_.answered(region, std::move(memory)); }
  // A mapped region's byte, with `bytes` more behind it, as long as *kept is; null: not mapped, or shorter.
  std::byte* at(std::uint64_t region, std::size_t offset, std::size_t bytes,
                std::shared_ptr<memory::RegionMapping>* kept) {
    return regions_.at(region, offset, bytes, kept);
  }

  // Whether the peer's process lets this one read its memory. Tried once.
  bool can_read(int world);
  const memory::Sample& sample_of(int world) const;

  // Copies them. False: they cannot be had here, or not any more.
  bool get(int world, const messaging::RemotePlace& place, std::byte* into);

 private:
  enum class Readable : std::uint8_t { untried, yes, no };

  control::Job& job_;
  memory::RegionCache regions_;
  std::vector<Readable> readable_;  // by world rank
};

}  // namespace anello::executor
