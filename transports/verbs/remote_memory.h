#pragma once
// The memory of ranks on other hosts, which this rank's adapter gets and puts without the owner's help. Only regions
// (memory/region.h) and, if the user asks for it, devices' allocations on both sides; a rank reaches a peer's memory
// while it has a lane to it.
#include "transports/remote_memory.h"
#include "transports/verbs/transfers.h"

#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace anello::transport {

class VerbsRemoteMemory final : public RemoteMemory {
 public:
  explicit VerbsRemoteMemory(const VerbsPorts& ports) : VerbsRemoteMemory(ports, VerbsDomain::of(ports.front())) {}
  // first: of the first port.
  VerbsRemoteMemory(const VerbsPorts& ports, VerbsDomain first);

  const VerbsPorts& ports() const { return ports_; }
  const std::shared_ptr<VerbsPort>& port() const { return ports_.front(); }
  VerbsRegistrations& registrations() {
    return *registrations_.front();
  }  // of the first port, whose keys are in addresses
  // What transfers need of these ports; nothing if the first port is not among them.
  std::vector<VerbsTransfers::Port> with_registrations(const VerbsPorts& ports) const;
  // A lane's end brings the way to its peer, and takes it away when it ends.
  void add(int world, VerbsTransfers& transfers) { of_[world] = &transfers; }
  void remove(int world, VerbsTransfers& transfers);

  bool is_far() const override { return true; }
  bool reaches_on_device(const memory::Buffer& buffer) override {
    return registrations().of(buffer, VerbsAccess::peers_load) != nullptr;
  }
  RemoteAddress give_out(const RemotePeer& peer, const memory::Buffer& buffer, Use use,
                         std::shared_ptr<const void>* kept) override;
  void take_back(const RemoteAddress& at) override;

  State prepare(const RemotePeer& peer, std::uint64_t key) override;
  std::byte* map(const RemotePeer& /*peer*/, const RemoteAddress& /*at*/, std::size_t /*bytes*/,
                 std::shared_ptr<const void>* /*kept*/) override {
    return nullptr;
  }
  int get_now(const Transfer& /*transfer*/) override { return ENOTSUP; }
  int put_now(const Transfer& /*transfer*/) override { return ENOTSUP; }
  const char* call() const override { return "a transfer by the adapter"; }
  void get(const Transfer& transfer) override { begin(transfer, false); }
  void put(const Transfer& transfer) override { begin(transfer, true); }
  std::optional<Transferred> poll() override;
  void withdraw(Token token) override;
  bool is_pending() const override { return !pending_.empty() || !ended_.empty(); }

 private:
  VerbsTransfers* find(int world) const;
  void begin(const Transfer& transfer, bool puts);

  const VerbsPorts ports_;
  std::vector<std::unique_ptr<VerbsRegistrations>> registrations_;  // by port
  std::map<int, VerbsTransfers*> of_;                               // by world rank
  std::vector<VerbsTransfers*> pending_;                            // those that have pending transfers
  std::deque<Transferred> ended_;                                   // of no way, or of one that has been taken away
};

}  // namespace anello::transport
