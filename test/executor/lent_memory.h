#pragma once
// Remote memory between threads that stand for hosts. A get moves its bytes only when it ends, and fails if the owner
// has taken the memory back by then.
#include "memory/region.h"
#include "transports/adapter_memory.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

namespace anello::test {

// What the ranks of one test share: the keys under which memory may be got.
struct LentKeys {
  std::mutex mutex;
  std::set<std::uint64_t> valid;
};

class LentMemory final : public AdapterMemory {
 public:
  static constexpr int kNever = 1 << 30;
  // delay_polls: a get ends that many polls after it has begun.
  LentMemory(LentKeys& keys, int delay_polls) : keys_(keys), delay_polls_(delay_polls) {}

  transport::RemoteAddress give_out(const transport::RemotePeer&, const memory::Buffer& buffer, Use,
                                    std::shared_ptr<const void>* kept) override {
    if (buffer.spot.region == 0) return {};
    *kept = alive_;
    const std::lock_guard held(keys_.mutex);
    keys_.valid.insert(buffer.spot.region);
    return {reinterpret_cast<std::uintptr_t>(buffer.at), buffer.spot.region, buffer.spot.offset};
  }
  void take_back(const transport::RemoteAddress& at) override {
    const std::lock_guard held(keys_.mutex);
    keys_.valid.erase(at.key);
    ++taken_back;
  }
  void get(const transport::Transfer& transfer) override {
    pending_.push_back({transfer, delay_polls_});
    most_pending = std::max(most_pending, pending_.size());
  }
  std::optional<transport::Transferred> poll() override {
    if (pending_.empty() || pending_.front().polls-- > 0) return std::nullopt;
    const transport::Transfer transfer = pending_.front().transfer;
    pending_.pop_front();
    if (memory::find_region(transfer.local, transfer.bytes).region == 0) return {{transfer.token, ENOTSUP}};
    const std::lock_guard held(keys_.mutex);  // so that a get ends before take_back returns
    if (!keys_.valid.contains(transfer.at.key)) return {{transfer.token, EACCES}};
    std::memcpy(transfer.local, reinterpret_cast<const std::byte*>(transfer.at.address), transfer.bytes);
    got_bytes += transfer.bytes;
    return {{transfer.token, 0}};
  }
  void withdraw(transport::Token token) override {
    std::erase_if(pending_, [token](const Pending& each) { return each.transfer.token == token; });
  }
  bool is_pending() const override { return !pending_.empty(); }

  std::size_t got_bytes = 0, most_pending = 0;
  int taken_back = 0;

 private:
  struct Pending {
    transport::Transfer transfer;
    int polls;
  };
  LentKeys& keys_;
  const int delay_polls_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::deque<Pending> pending_;
};

}  // namespace anello::test
