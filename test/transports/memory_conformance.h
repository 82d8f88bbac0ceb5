#pragma once
// The contract of every remote memory, whatever moves the bytes. A transport that has one joins with one test case:
//
//   TEST_CASE("inproc keeps the contract of remote memory") {
//     keeps_contract_of_memory([] {
//       MemoryPair pair;
//       pair.transport = make_inproc(pair.arena->of(0));
//       return pair;
//     });
//   }
#include "memory/buffer.h"
#include "transports/remote_memory.h"
#include "transports/test_arena.h"
#include "transports/transport.h"

#include <functional>
#include <memory>

namespace anello::testing {

// Local rank 0 reaches the memory of local rank 1; both are this process.
struct MemoryPair {
  std::shared_ptr<TestArena> arena = std::make_shared<TestArena>(2);
  std::shared_ptr<transport::Transport> transport;
  // Makes a buffer of rank 1, which lives as long as the returned pointer.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocate = [](std::size_t bytes) {
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  };
  // Whether rank 0 may store there.
  bool puts = true;
  // For memory that is far: rank 1's side, which gives its buffers out. `keep` holds what both sides need.
  transport::RemoteMemory* owner = nullptr;
  std::shared_ptr<void> keep;

  transport::RemoteMemory& memory() const { return *transport->remote_memory(); }
};

// A buffer in a region of its own.
std::shared_ptr<std::byte> in_region(std::size_t bytes);

// Contains Catch2 sections: call it once per TEST_CASE, as the last statement.
void keeps_contract_of_memory(const std::function<MemoryPair()>& make);

}  // namespace anello::testing
