#pragma once
// An arena for tests: the memory, and a wake-up descriptor per rank. Both outlive fork, so two processes can share it.
#include "base/unique_fd.h"
#include "memory/arena.h"

#include <cstddef>
#include <vector>

namespace anello::testing {

class TestArena {
 public:
  explicit TestArena(int ranks, std::size_t ring_bytes = 64 * 1024);
  ~TestArena();
  TestArena(const TestArena&) = delete;
  TestArena& operator=(const TestArena&) = delete;

  memory::Arena of(int rank) const { return {base_, layout_, rank, memory_.get(), bells_.data(), &threads_}; }
  int bell(int rank) const { return bells_[static_cast<std::size_t>(rank)]; }

 private:
  memory::ArenaLayout layout_;
  UniqueFd memory_;
  std::vector<UniqueFd> owners_;
  std::vector<int> bells_;
  std::byte* base_ = nullptr;
  mutable memory::ArenaThreads threads_;
};

}  // namespace anello::testing
