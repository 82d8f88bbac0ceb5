#pragma once
// Wraps a transport's remote memory and makes transfers fail as planned.
#include "transports/remote_memory.h"

#include <cerrno>
#include <deque>

namespace anello::testing {

struct MemoryFaults {
  static constexpr int kNever = 1 << 30;
  // poll() reports the end of a transfer this many polls later.
  int delay_polls = 0;
  // Transfers from this one on (0: the first) end with `error`, after they have stored some bytes.
  int fail_from = kNever;
  int error = EFAULT;
  // Transfers from this one on never end by themselves.
  int stall_from = kNever;
};

class FaultyMemory final : public transport::RemoteMemory {
 public:
  FaultyMemory(transport::RemoteMemory& inner, const MemoryFaults& faults) : inner_(inner), faults_(faults) {}

  bool shares_addresses() const override { return inner_.shares_addresses(); }
  bool spares_the_lane() const override { return inner_.spares_the_lane(); }
  bool is_far() const override { return inner_.is_far(); }
  bool reaches_on_device(const memory::Buffer& buffer) override { return inner_.reaches_on_device(buffer); }
  transport::RemoteAddress give_out(const transport::RemotePeer& peer, const memory::Buffer& buffer, Use use,
                                    std::shared_ptr<const void>* kept) override {
    return inner_.give_out(peer, buffer, use, kept);
  }
  void take_back(const transport::RemoteAddress& at) override { inner_.take_back(at); }
  State prepare(const transport::RemotePeer& peer, std::uint64_t key) override { return inner_.prepare(peer, key); }
  void answered(std::uint64_t key, memory::PassedRange memory) override { inner_.answered(key, std::move(memory)); }
  std::byte* map(const transport::RemotePeer& peer, const transport::RemoteAddress& at, std::size_t bytes,
                 std::shared_ptr<const void>* kept) override {
    return inner_.map(peer, at, bytes, kept);
  }
  int get_now(const transport::Transfer& transfer) override;
  int put_now(const transport::Transfer& transfer) override;
  const char* call() const override { return inner_.call(); }
  void get(const transport::Transfer& transfer) override;
  void put(const transport::Transfer& transfer) override;
  std::optional<transport::Transferred> poll() override;
  void withdraw(transport::Token token) override;
  bool is_pending() const override { return inner_.is_pending() || !stalled_.empty() || !ended_.empty(); }
  bool begin_work() override { return inner_.begin_work(); }
  void work() override { inner_.work(); }

 private:
  struct Ended {
    transport::Transferred told;
    int polls = 0;
  };
  bool fails() { return made_++ >= faults_.fail_from; }

  transport::RemoteMemory& inner_;
  const MemoryFaults faults_;
  int made_ = 0;  // transfers so far
  std::deque<transport::Token> failing_;
  std::deque<transport::Token> stalled_;
  std::deque<Ended> ended_;
};

}  // namespace anello::testing
