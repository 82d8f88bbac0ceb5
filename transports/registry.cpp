#include "transports/registry.h"

#include "control/transport_kind.h"
#include "transports/inproc/transport.h"
#include "transports/shm/transport.h"
#include "transports/tcp/transport.h"

namespace anello::transport {
namespace {

std::unique_ptr<Transport> inproc_of(const Means& means) { return means.arena ? make_inproc(means.arena) : nullptr; }
std::unique_ptr<Transport> shm_of(const Means& means) { return means.arena ? make_shm(means.arena) : nullptr; }
std::unique_ptr<Transport> tcp_of(const Means& means) {
  return make_tcp(means.congestion, means.ranks_per_processor, means.checksum);
}

const Row kRows[] = {
    {"inproc", control::bit::inproc, inproc_why_not, inproc_of},
    {"shm", control::bit::shm, shm_why_not, shm_of},
    {"tcp", control::bit::tcp, tcp_why_not, tcp_of},
};

}  // namespace

std::span<const Row> registry() { return kRows; }

const Row* find_transport(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace anello::transport
