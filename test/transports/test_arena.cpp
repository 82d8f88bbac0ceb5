#include "transports/test_arena.h"

#include "base/error.h"

#include <atomic>
#include <cerrno>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace anello::testing {
namespace {

std::uint64_t next_nonce() {
  static std::atomic<std::uint64_t> made{0};
  return (std::uint64_t(::getpid()) << 32) + ++made;
}

}  // namespace

TestArena::TestArena(int ranks, std::size_t ring_bytes)
    : layout_{ranks, ring_bytes}, memory_(::memfd_create("anello-test", MFD_CLOEXEC)) {
  if (!memory_) throw system_error("memfd_create", errno);
  const std::size_t bytes = layout_.bytes();
  if (::ftruncate(memory_.get(), static_cast<off_t>(bytes)) != 0) throw system_error("ftruncate", errno);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (mapped == MAP_FAILED) throw system_error("mmap", errno);
  base_ = static_cast<std::byte*>(mapped);
  for (int rank = 0; rank < ranks; ++rank) {
    owners_.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!owners_.back()) throw system_error("eventfd", errno);
    bells_.push_back(owners_.back().get());
  }
  memory::ArenaHeader& header = of(0).header();
  header.nonce = next_nonce();
  header.ranks = static_cast<std::uint32_t>(ranks);
  header.ring_bytes = static_cast<std::uint32_t>(ring_bytes);
  for (int rank = 0; rank < ranks; ++rank) of(0).inbox(rank).state.store(memory::RankState::alive);
}

TestArena::~TestArena() { ::munmap(base_, layout_.bytes()); }

}  // namespace anello::testing
