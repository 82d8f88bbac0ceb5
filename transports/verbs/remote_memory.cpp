#include "transports/verbs/remote_memory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace anello::transport {

VerbsRemoteMemory::VerbsRemoteMemory(const VerbsPorts& ports, VerbsDomain first) : ports_(ports) {
  for (const std::shared_ptr<VerbsPort>& each : ports_) {
    VerbsDomain domain = registrations_.empty() ? std::move(first) : VerbsDomain::of(each);
    registrations_.push_back(
        std::make_unique<VerbsRegistrations>(std::move(domain), each->settings().cache, each->settings().dma_buf));
  }
}

std::vector<VerbsTransfers::Port> VerbsRemoteMemory::with_registrations(const VerbsPorts& ports) const {
  if (ports.front() != port()) return {};
  std::vector<VerbsTransfers::Port> all;
  for (const std::shared_ptr<VerbsPort>& each : ports) {
    const auto at = std::find(ports_.begin(), ports_.end(), each) - ports_.begin();
    all.push_back({each, registrations_[std::size_t(at)].get()});
  }
  return all;
}

void VerbsRemoteMemory::take_back(const RemoteAddress& at) {
  const auto name = registrations().end(std::uint32_t(at.key));
  for (std::size_t i = 1; name && i < registrations_.size(); ++i) registrations_[i]->end(*name);
}

VerbsTransfers* VerbsRemoteMemory::find(int world) const {
  const auto found = of_.find(world);
  return found == of_.end() ? nullptr : found->second;
}

void VerbsRemoteMemory::remove(int world, VerbsTransfers& transfers) {
  if (find(world) == &transfers) of_.erase(world);
  transfers.give_up("the lane ends");
  while (const std::optional<Transferred> ended = transfers.take_ended()) ended_.push_back(*ended);
  std::erase(pending_, &transfers);
}

RemoteAddress VerbsRemoteMemory::give_out(const RemotePeer& peer, const memory::Buffer& buffer, Use use,
                                          std::shared_ptr<const void>* kept) {
  VerbsTransfers* const transfers = find(peer.world);
  if (transfers == nullptr) return {};
  return transfers->give_out(buffer, use == Use::puts ? VerbsAccess::peers_store : VerbsAccess::peers_load, kept);
}

RemoteMemory::State VerbsRemoteMemory::prepare(const RemotePeer& peer, std::uint64_t key) {
  const VerbsTransfers* const transfers = find(peer.world);
  if (transfers == nullptr || transfers->is_over() || !VerbsTransfers::is_right(key)) return State::refused;
  return transfers->is_open() ? State::ready : State::asked;
}

void VerbsRemoteMemory::begin(const Transfer& transfer, bool puts) {
  VerbsTransfers* const transfers = find(transfer.peer.world);
  if (transfers == nullptr) {
    ended_.push_back({transfer.token, ENOTCONN});
    return;
  }
  if (!transfers->is_pending()) pending_.push_back(transfers);
  transfers->begin(transfer, puts);
}

std::optional<Transferred> VerbsRemoteMemory::poll() {
  if (!ended_.empty()) {
    const Transferred first = ended_.front();
    ended_.pop_front();
    return first;
  }
  for (std::size_t i = 0; i < pending_.size();) {
    VerbsTransfers& transfers = *pending_[i];
    transfers.progress();
    const std::optional<Transferred> ended = transfers.take_ended();
    if (!transfers.is_pending()) {
      pending_.erase(pending_.begin() + std::ptrdiff_t(i));
    } else {
      ++i;
    }
    if (ended) return ended;
  }
  return std::nullopt;
}

void VerbsRemoteMemory::withdraw(Token token) {
  std::erase_if(ended_, [token](const Transferred& each) { return each.token == token; });
  for (VerbsTransfers* const each : pending_) each->withdraw(token);
  std::erase_if(pending_, [](const VerbsTransfers* each) { return !each->is_pending(); });
}

}  // namespace anello::transport
