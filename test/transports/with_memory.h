#pragma once
// The lanes of one transport, with another remote memory beside them.
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <memory>
#include <utility>

namespace anello::test {

class TransportWithMemory final : public transport::Transport {
 public:
  // The memory outlives the transport.
  TransportWithMemory(std::unique_ptr<transport::Transport> inner, transport::RemoteMemory& memory)
      : inner_(std::move(inner)), memory_(memory) {}
  std::string_view name() const override { return inner_->name(); }
  bool needs_connection() const override { return inner_->needs_connection(); }
  std::unique_ptr<transport::Endpoint> open(int peer, int local_peer, transport::Connections connections) override {
    return inner_->open(peer, local_peer, std::move(connections));
  }
  transport::RemoteMemory* remote_memory() override { return &memory_; }

 private:
  std::unique_ptr<transport::Transport> inner_;
  transport::RemoteMemory& memory_;
};

}  // namespace anello::test
