#pragma once
// Remote memory between threads that stand for hosts, whose gets end in random order, fail, or are held back.
#include "executor/lent_memory.h"

#include <atomic>
#include <random>
#include <vector>

namespace anello::test {

class WildMemory final : public AdapterMemory {
 public:
  // In percent.
  struct Ways {
    int fail = 0;       // a get ends with an error
    int not_ready = 0;  // a key is not ready
    int refuse = 0;     // a buffer is not given out
    int idle = 0;       // a poll finds nothing
  };
  WildMemory(LentKeys& keys, unsigned seed) : WildMemory(keys, seed, Ways()) {}
  WildMemory(LentKeys& keys, unsigned seed, const Ways& ways) : keys_(keys), random_(seed), ways_(ways) {}

  transport::RemoteAddress give_out(const transport::RemotePeer&, const memory::Buffer& buffer, Use,
                                    std::shared_ptr<const void>* kept) override {
    if (buffer.spot.region == 0 || happens(ways_.refuse)) return {};
    if (lacks_memory) {
      ++refused;
      throw std::bad_alloc();
    }
    *kept = alive_;
    const std::lock_guard lock(keys_.mutex);
    keys_.valid.insert(buffer.spot.region);
    return {reinterpret_cast<std::uintptr_t>(buffer.at), buffer.spot.region, buffer.spot.offset};
  }
  void take_back(const transport::RemoteAddress& at) override {
    const std::lock_guard lock(keys_.mutex);
    keys_.valid.erase(at.key);
  }
  State prepare(const transport::RemotePeer&, std::uint64_t) override {
    return happens(ways_.not_ready) ? State::asked : State::ready;
  }
  void get(const transport::Transfer& transfer) override {
    for (const transport::Transfer& each : pending_) is_token_doubled |= each.token == transfer.token;
    pending_.push_back(transfer);
    regions_.push_back(memory::find_region(transfer.local, transfer.bytes).region);
  }
  std::optional<transport::Transferred> poll() override {
    if (held || pending_.empty() || happens(ways_.idle)) return std::nullopt;
    const auto at = std::ptrdiff_t(random_() % pending_.size());
    const transport::Transfer transfer = pending_[std::size_t(at)];
    const std::uint64_t region = regions_[std::size_t(at)];
    pending_.erase(pending_.begin() + at);
    regions_.erase(regions_.begin() + at);
    if (happens(ways_.fail)) return {{transfer.token, EIO}};
    const std::lock_guard lock(keys_.mutex);
    if (!keys_.valid.contains(transfer.at.key)) return {{transfer.token, EACCES}};
    // An adapter stores into the pages that the memory had when it was registered.
    const bool has_moved = memory::find_region(transfer.local, transfer.bytes).region != region;
    if (!stores_aside || !has_moved)
      std::memcpy(transfer.local, reinterpret_cast<const std::byte*>(transfer.at.address), transfer.bytes);
    got_bytes += transfer.bytes;
    return {{transfer.token, 0}};
  }
  void withdraw(transport::Token token) override {
    for (std::size_t i = pending_.size(); i-- > 0;) {
      if (pending_[i].token != token) continue;
      pending_.erase(pending_.begin() + std::ptrdiff_t(i));
      regions_.erase(regions_.begin() + std::ptrdiff_t(i));
    }
  }
  bool is_pending() const override { return !pending_.empty(); }

  std::atomic<bool> held{false};  // no get ends
  bool stores_aside = false;      // into pages that the memory has no more, if it has moved
  bool lacks_memory = false;      // to give out
  int refused = 0;                // for that
  bool is_token_doubled = false;  // two pending gets had one token
  std::size_t got_bytes = 0;

 private:
  bool happens(int percent) { return int(random_() % 100) < percent; }

  LentKeys& keys_;
  std::mt19937 random_;
  const Ways ways_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::vector<transport::Transfer> pending_;
  std::vector<std::uint64_t> regions_;  // where each stores
};

}  // namespace anello::test
