// This is apart from the tests of lanes, some of which fork: regions' handlers for forks would close their arenas.
#include "memory/process_memory.h"
#include "memory/region.h"
#include "support/catch.h"
#include "transports/inproc/transport.h"
#include "transports/memory_conformance.h"
#include "transports/shm/transport.h"

using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

TEST_CASE("inproc keeps the contract of remote memory") {
  keeps_contract_of_memory([] {
    MemoryPair pair;
    pair.transport = make_inproc(pair.arena->of(0));
    return pair;
  });
}

namespace {

// Both ranks are this process.
MemoryPair shm_memory() {
  MemoryPair pair;
  pair.arena->of(1).inbox(1).sample = memory::own_sample();
  const auto made = std::make_shared<RemoteMemory*>(nullptr);
  pair.transport = make_shm(pair.arena->of(0), [made](int /*world*/, std::uint64_t key) {
    if (memory::PassedRange memory = memory::pass_region(key)) (*made)->answered(key, std::move(memory));
  });
  *made = pair.transport->remote_memory();
  return pair;
}

}  // namespace

TEST_CASE("shm keeps the contract of remote memory in regions") {
  keeps_contract_of_memory([] {
    MemoryPair pair = shm_memory();
    pair.allocate = in_region;
    return pair;
  });
}

TEST_CASE("shm keeps the contract of remote memory outside regions") {
  if (!memory::can_read(memory::own_sample())) {
    WARN("SKIPPED: the kernel does not let processes read each other's memory");
    return;
  }
  keeps_contract_of_memory([] {
    MemoryPair pair = shm_memory();
    pair.puts = false;
    return pair;
  });
}
