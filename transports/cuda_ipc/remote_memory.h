#pragma once
// Memory that the kernels of one device of this process load and store in place: of other processes' devices, opened by
// IPC handles or descriptors, and of this process's own, at its addresses. Both come as regions do (device/exported.h).
#include "device/imported.h"
#include "memory/region_cache.h"
#include "transports/remote_memory.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace anello::transport {

class DeviceMemory final : public RemoteMemory {
 public:
  using Request = std::function<void(int world, std::uint64_t key)>;
  DeviceMemory(device::Device& device, Request request) : device_(device), request_(std::move(request)) {}
  ~DeviceMemory() override;

  State prepare(const RemotePeer& peer, std::uint64_t key) override;
  void try_again(std::uint64_t key) override;
  bool awaits(std::uint64_t key) const override;
  void answered(std::uint64_t key, memory::PassedRange memory) override;
  std::byte* map(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes,
                 std::shared_ptr<const void>* kept) override;
  std::optional<DevicePlace> place_of(std::uint64_t key) const override;

  // Kernels use the memory where it lies.
  int get_now(const Transfer& transfer) override;
  int put_now(const Transfer& transfer) override;
  void get(const Transfer& transfer) override { ended_.push_back(transfer.token); }
  void put(const Transfer& transfer) override { ended_.push_back(transfer.token); }
  std::optional<Transferred> poll() override;
  void withdraw(Token token) override { std::erase(ended_, token); }
  bool is_pending() const override { return !ended_.empty(); }

 private:
  // A descriptor of a piece of mapped memory.
  struct Descriptor {
    bool is_here = false;
    UniqueFd file;  // none: it cannot be had
  };
  struct Entry {
    State state = State::asked;
    bool is_own = false;  // of this process
    device::ExportRecord record;
    std::shared_ptr<device::Imported> imported;  // null: this process's own
    std::uint64_t used = 0;
  };
  // More would keep too much memory that its owners have freed. All calls under way together use fewer.
  static constexpr std::size_t kMost = 1024;

  bool take_own(Entry& entry, std::uint64_t key) const;
  State open(Entry& entry, const RemotePeer& peer, std::uint64_t key, const memory::RegionMapping& page);
  State gather_descriptors(const Entry& entry, const RemotePeer& peer, std::vector<UniqueFd>* all);
  void drop_freed();

  device::Device& device_;
  const Request request_;
  memory::RegionCache records_;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::unordered_map<std::uint64_t, Descriptor> descriptors_;  // requested, by piece
  std::uint64_t clock_ = 0;
  std::deque<Token> ended_;
};

}  // namespace anello::transport
