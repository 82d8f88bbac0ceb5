#include "transports/registry.h"

#include "transports/cuda_ipc/remote_memory.h"
#include "transports/inproc/transport.h"
#include "transports/shm/transport.h"
#include "transports/tcp/transport.h"
#include "transports/verbs/transport.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace anello::transport {
namespace {

std::unique_ptr<Transport> inproc_of(const Resources& resources) {
  return resources.arena ? make_inproc(resources.arena) : nullptr;
}
std::unique_ptr<Transport> shm_of(const Resources& resources) {
  return resources.arena ? make_shm(resources.arena, resources.request_key) : nullptr;
}
std::unique_ptr<Transport> verbs_of(const Resources& /*resources*/) { return make_verbs(); }
std::unique_ptr<Transport> tcp_of(const Resources& resources) {
  return make_tcp(resources.congestion, resources.ranks_per_processor, resources.checksum);
}

// Constant, so that it exists before all other static objects.
constexpr Row kRows[] = {
    {"inproc", Over::threads, inproc_why_not, nullptr, inproc_reaches, inproc_why_unreached, inproc_of},
    {"shm", Over::arena, shm_why_not, nullptr, shm_reaches, shm_why_unreached, shm_of},
    {"verbs", Over::connection, verbs_why_not, verbs_address, verbs_reaches, verbs_why_unreached, verbs_of,
     On::request},
    {"tcp", Over::connection, tcp_why_not, nullptr, tcp_reaches, tcp_why_unreached, tcp_of, On::its_own, true},
};

}  // namespace

std::unique_ptr<RemoteMemory> make_device_memory(int device,
                                                 std::function<void(int world, std::uint64_t key)> request_key) {
  return std::make_unique<DeviceMemory>(device::Device::of(device), std::move(request_key));
}

std::uint32_t Row::bit() const { return 1u << (this - kRows); }

std::span<const Row> registry() { return kRows; }

const Row* find_transport(std::string_view name) {
  const auto found = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.name == name; });
  return found == std::end(kRows) ? nullptr : found;
}

std::uint32_t bit_of(std::string_view name) {
  const Row* const row = find_transport(name);
  assert(row != nullptr);
  return row->bit();
}

std::uint32_t all_transports() { return (1u << std::size(kRows)) - 1; }

std::uint32_t transports_over(Over over) {
  std::uint32_t bits = 0;
  for (const Row& row : kRows) bits |= row.over == over ? row.bit() : 0;
  return bits;
}

std::uint32_t default_transports() {
  std::uint32_t bits = 0;
  for (const Row& row : kRows) bits |= row.on == On::its_own ? row.bit() : 0;
  return bits;
}

std::uint32_t over_arena(std::uint32_t transports) {
  return transports & (transports_over(Over::threads) | transports_over(Over::arena));
}

std::string transport_names(std::uint32_t transports) {
  std::string names;
  for (const Row& row : kRows) {
    if ((transports & row.bit()) == 0) continue;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace anello::transport
