#pragma once
// Remote memory between threads that stand for hosts: what an adapter would do, the fake device's copies do.
#include "support/device_memory.h"
#include "transports/adapter_memory.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace anello::test {

struct FarFaults {
  bool reaches_devices = true;
  bool gives_out = true;
  bool gets = true;  // else each get ends with an error, after it has stored some bytes
};

class FarMemory final : public AdapterMemory {
 public:
  explicit FarMemory(FarFaults faults) : faults_(faults) {}

  bool reaches_on_device(const memory::Buffer&) override { return faults_.reaches_devices; }
  // The key tells whether the address is a device's.
  transport::RemoteAddress give_out(const transport::RemotePeer&, const memory::Buffer& buffer, Use,
                                    std::shared_ptr<const void>* kept) override {
    const bool is_on_device = buffer.space.kind == memory::Space::Kind::device;
    if (!faults_.gives_out || (!is_on_device && buffer.spot.region == 0)) return {};
    *kept = std::make_shared<int>(0);
    ++(is_on_device ? given_on_device : given_on_host);
    return {reinterpret_cast<std::uintptr_t>(buffer.at), is_on_device ? kDevice : kHost, 0};
  }
  void get(const transport::Transfer& transfer) override {
    const bool is_to_device = transfer.space.kind == memory::Space::Kind::device;
    ++(is_to_device ? got_to_device : got_to_host);
    std::vector<std::byte> bytes(faults_.gets ? transfer.bytes : transfer.bytes / 2);
    auto* const from = reinterpret_cast<const std::byte*>(transfer.at.address);
    if (transfer.at.key == kDevice) {
      copy_to_host(bytes.data(), from, bytes.size());
    } else {
      std::memcpy(bytes.data(), from, bytes.size());
    }
    if (is_to_device) {
      copy_to_device(transfer.local, bytes.data(), bytes.size());
    } else {
      std::memcpy(transfer.local, bytes.data(), bytes.size());
    }
    ended_.push_back({transfer.token, faults_.gets ? 0 : EIO});
  }
  std::optional<transport::Transferred> poll() override {
    if (ended_.empty()) return std::nullopt;
    const transport::Transferred first = ended_.front();
    ended_.pop_front();
    return first;
  }
  void withdraw(transport::Token token) override {
    std::erase_if(ended_, [token](const auto& each) { return each.token == token; });
  }
  bool is_pending() const override { return !ended_.empty(); }

  int given_on_device = 0, given_on_host = 0, got_to_device = 0, got_to_host = 0;

 private:
  static constexpr std::uint64_t kHost = 1, kDevice = 2;
  const FarFaults faults_;
  std::deque<transport::Transferred> ended_;
};

}  // namespace anello::test
