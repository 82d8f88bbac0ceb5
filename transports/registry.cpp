#include "transports/registry.h"

#include "control/transport_kind.h"
#include "transports/inproc/transport.h"
#include "transports/shm/transport.h"
#include "transports/tcp/transport.h"

namespace anello::transport {
namespace {

std::unique_ptr<Transport> inproc_of(const Resources& resources) {
  return resources.arena ? make_inproc(resources.arena) : nullptr;
}
std::unique_ptr<Transport> shm_of(const Resources& resources) {
  return resources.arena ? make_shm(resources.arena, resources.request_key) : nullptr;
}
std::unique_ptr<Transport> tcp_of(const Resources& resources) {
  return make_tcp(resources.congestion, resources.ranks_per_processor, resources.checksum);
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
