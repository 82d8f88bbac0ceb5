#pragma once
// Remote memory that only adapters reach: what all that stand for it have in common. The rest is about gets.
#include "transports/remote_memory.h"

#include <cerrno>
#include <memory>

namespace anello::test {

class AdapterMemory : public transport::RemoteMemory {
 public:
  bool is_far() const override { return true; }
  State prepare(const transport::RemotePeer&, std::uint64_t) override { return State::ready; }
  std::byte* map(const transport::RemotePeer&, const transport::RemoteAddress&, std::size_t,
                 std::shared_ptr<const void>*) override {
    return nullptr;
  }
  int get_now(const transport::Transfer&) override { return ENOTSUP; }
  int put_now(const transport::Transfer&) override { return ENOTSUP; }
  // Nobody puts.
  void put(const transport::Transfer& transfer) override { get(transfer); }
};

}  // namespace anello::test
