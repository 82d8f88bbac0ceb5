#pragma once
// Lanes between processes of one host: two byte rings in the arena, one each way.
#include "memory/arena.h"
#include "transports/reach.h"
#include "transports/shm/remote_memory.h"
#include "transports/transport.h"

#include <memory>
#include <string>

namespace anello::transport {

// arena: the owner of its mapping must outlive the endpoints. At most one endpoint per peer and arena is ever opened.
// request: asks control for the memory behind a key; without it no peer's region is mapped.
std::unique_ptr<Transport> make_shm(
    const memory::Arena& arena, KeyRequest request = [](int, std::uint64_t) {});
std::string shm_why_not();
bool shm_reaches(const Place& a, const Place& b);
std::string shm_why_unreached(const Place& a, const Place& b);

}  // namespace anello::transport
