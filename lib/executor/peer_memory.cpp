#include "executor/peer_memory.h"

#include "base/log.h"

#include <cerrno>
#include <cstring>

namespace anello::executor {

PeerMemory::PeerMemory(control::Job& job) : job_(job), readable_(std::size_t(job.size()), Readable::untried) {}

const memory::Sample& PeerMemory::sample_of(int world) const {
  return job_.arena().inbox(job_.members()[std::size_t(world)].local_index).sample;
}

bool PeerMemory::can_read(int world) {
  Readable& known = readable_[std::size_t(world)];
  if (known == Readable::untried) {
    known = memory::can_read(sample_of(world)) ? Readable::yes : Readable::no;
    if (known == Readable::no)
      log::info(job_.rank(), "the memory of ", job_.describe(world), " cannot be read (", std::strerror(errno), ")");
  }
  return known == Readable::yes;
}

bool PeerMemory::get(int world, const messaging::RemotePlace& place, std::byte* into) {
  if (place.in == messaging::RemotePlace::In::process)
    return can_read(world) && memory::read_process(sample_of(world), place.at, into, place.bytes) == 0;
  std::shared_ptr<memory::RegionMapping> kept;
  const std::byte* const from = regions_.at(place.region, place.at, place.bytes, &kept);
  if (from == nullptr) return false;
  std::memcpy(into, from, place.bytes);
  return true;
}

}  // namespace anello::executor
