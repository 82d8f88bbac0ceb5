#include "transports/memory_conformance.h"

#include "base/clock.h"
#include "memory/region.h"
#include "support/catch.h"
#include "support/knob.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>
#include <thread>
#include <vector>

namespace anello::testing {
namespace {

using transport::RemoteAddress;
using transport::RemoteMemory;
using transport::RemotePeer;
using transport::Token;
using transport::Transfer;
using transport::Transferred;

constexpr RemotePeer kOwner{1, 1};
constexpr RemotePeer kUser{0, 0};  // as the owner knows it
constexpr std::size_t kSizes[] = {0, 1, 7, 4096, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3'000'001};
constexpr std::size_t kRoom = 64;  // on either side of the bytes that a transfer may touch

std::byte pattern(unsigned seed, std::size_t i) { return std::byte((i * 31 + i / 251 + seed * 97) & 0xff); }

// The owner's buffer with a pattern, and the buffer on this side with room around it.
struct Transfers {
  Transfers(const MemoryPair& pair, std::size_t most)
      : memory(pair.memory()),
        owner(pair.owner),
        theirs(pair.allocate(most + kRoom)),
        mine_at(in_region(most + 2 * kRoom)),
        mine(mine_at.get(), most + 2 * kRoom) {
    for (std::size_t i = 0; i < most + kRoom; ++i) theirs.get()[i] = pattern(1, i);
    std::fill(mine.begin(), mine.end(), std::byte{0xee});
  }
  RemoteAddress address(std::size_t from, std::size_t bytes) const {
    memory::Buffers buffers;
    const memory::Buffer buffer = buffers.find(theirs.get() + from, bytes);
    if (owner == nullptr) return transport::address_of(buffer);
    return owner->give_out(kUser, buffer, RemoteMemory::Use::puts, &kept);
  }
  Transfer of(std::size_t from, std::size_t bytes, Token token) {
    return {kOwner, address(from, bytes), mine.data() + kRoom, bytes, token};
  }
  // Prepares the buffer's key, until it is ready or refused.
  RemoteMemory::State prepare() const {
    const Deadline limit = Deadline::in_ms(20'000);
    RemoteMemory::State state = RemoteMemory::State::asked;
    while (!limit.passed() && (state = memory.prepare(kOwner, address(0, 1).key)) == RemoteMemory::State::asked) {
      std::this_thread::yield();
    }
    return state;
  }
  // Waits until a transfer ends.
  Transferred wait() const {
    const Deadline limit = Deadline::in_ms(20'000);
    while (!limit.passed()) {
      if (const auto ended = memory.poll()) return *ended;
      if (memory.begin_work()) memory.work();
    }
    return {~Token{0}, -1};
  }
  // Whether `mine` holds the pattern from `from` on, and no byte outside was touched.
  bool got(std::size_t from, std::size_t bytes) const {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const bool inside = i >= kRoom && i < kRoom + bytes;
      if (mine[i] != (inside ? pattern(1, from + i - kRoom) : std::byte{0xee})) return false;
    }
    return true;
  }

  RemoteMemory& memory;
  RemoteMemory* const owner;
  std::shared_ptr<std::byte> theirs, mine_at;
  mutable std::shared_ptr<const void> kept;
  const std::span<std::byte> mine;
};

}  // namespace

std::shared_ptr<std::byte> in_region(std::size_t bytes) {
  return {memory::make_region(bytes), [](std::byte* base) { memory::free_region(base); }};
}

void keeps_contract_of_memory(const std::function<MemoryPair()>& make) {
  const MemoryPair pair = make();
  REQUIRE(pair.transport->remote_memory() != nullptr);

  SECTION("a get brings the peer's bytes, and touches no others") {
    const std::size_t bytes = GENERATE(from_range(std::begin(kSizes), std::end(kSizes)));
    const std::size_t from = GENERATE(std::size_t{0}, std::size_t{13});
    CAPTURE(bytes, from);
    Transfers transfers(pair, 3'000'001);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    CHECK_FALSE(transfers.memory.is_pending());
    transfers.memory.get(transfers.of(from, bytes, 7));
    CHECK(transfers.memory.is_pending());
    const Transferred ended = transfers.wait();
    CHECK(ended.token == 7);
    CHECK(ended.error == 0);
    CHECK(transfers.got(from, bytes));
    CHECK_FALSE(transfers.memory.is_pending());
    CHECK_FALSE(transfers.memory.poll().has_value());
    std::fill(transfers.mine.begin(), transfers.mine.end(), std::byte{0xee});
    if (transfers.memory.is_far()) {
      CHECK(transfers.memory.get_now(transfers.of(from, bytes, 0)) == ENOTSUP);
      CHECK(transfers.memory.put_now(transfers.of(from, bytes, 0)) == ENOTSUP);
    } else {
      CHECK(transfers.memory.get_now(transfers.of(from, bytes, 0)) == 0);
      CHECK(transfers.got(from, bytes));
    }
  }

  SECTION("a put stores the bytes, and touches no others") {
    const std::size_t bytes = GENERATE(from_range(std::begin(kSizes), std::end(kSizes)));
    CAPTURE(bytes);
    Transfers transfers(pair, 3'000'001);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    transfers.memory.put(transfers.of(13, bytes, 8));
    const Transferred ended = transfers.wait();
    CHECK(ended.token == 8);
    if (!pair.puts && bytes > 0) {
      CHECK(ended.error == ENOTSUP);
      CHECK(transfers.memory.put_now(transfers.of(13, bytes, 0)) == ENOTSUP);
      return;
    }
    CHECK(ended.error == 0);
    bool right = true;
    for (std::size_t i = 0; i < 3'000'001; ++i) {
      const bool inside = i >= 13 && i < 13 + bytes;
      right = right && transfers.theirs.get()[i] == (inside ? std::byte{0xee} : pattern(1, i));
    }
    CHECK(right);
  }

  SECTION("several transfers are pending at once, and each token comes back once") {
    Transfers transfers(pair, 600'000);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    const std::shared_ptr<std::byte> room = in_region(5 * 600'000);
    std::vector<std::byte*> into;
    for (Token token = 0; token < 5; ++token) {
      Transfer each = transfers.of(token, 100'000 * (token + 1), token + 100);
      each.local = room.get() + token * 600'000;
      into.push_back(each.local);
      transfers.memory.get(each);
    }
    std::vector<Token> tokens;
    for (int i = 0; i < 5; ++i) tokens.push_back(transfers.wait().token);
    std::sort(tokens.begin(), tokens.end());
    CHECK(tokens == std::vector<Token>{100, 101, 102, 103, 104});
    bool right = true;
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t i = 0; i < 100'000 * (t + 1); ++i) right = right && into[t][i] == pattern(1, t + i);
    CHECK(right);
    CHECK_FALSE(transfers.memory.is_pending());
  }

  SECTION("a withdrawn transfer stores nothing more, and those behind it go on") {
    Transfers transfers(pair, 3'000'000);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    const std::shared_ptr<std::byte> second = in_region(1000);
    transfers.memory.get(transfers.of(0, 3'000'000, 1));
    Transfer behind = transfers.of(5, 1000, 2);
    behind.local = second.get();
    transfers.memory.get(behind);
    for (int piece = GENERATE(0, 1, 2); piece > 0; --piece) {
      if (transfers.memory.begin_work()) transfers.memory.work();
    }
    transfers.memory.withdraw(1);
    std::fill(transfers.mine.begin(), transfers.mine.end(), std::byte{0xee});
    CHECK(transfers.wait().token == 2);
    CHECK(second.get()[999] == pattern(1, 1004));
    CHECK(std::all_of(transfers.mine.begin(), transfers.mine.end(), [](std::byte b) { return b == std::byte{0xee}; }));
    CHECK_FALSE(transfers.memory.is_pending());
    transfers.memory.withdraw(77);  // there is no such transfer
  }

  SECTION("withdrawing waits for the piece that another thread moves") {
    Transfers transfers(pair, 3'000'000);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    for (int round = 0; round < int(knob("SOAK_WITHDRAWALS", 20)); ++round) {
      transfers.memory.get(transfers.of(0, 3'000'000, 1));
      std::fill(transfers.mine.begin(), transfers.mine.end(), std::byte{});
      std::atomic<bool> begun{false};
      const bool works = transfers.memory.begin_work();
      std::thread worker([&] {
        begun = true;
        if (works) transfers.memory.work();
      });
      while (!begun) std::this_thread::yield();
      transfers.memory.withdraw(1);
      std::fill(transfers.mine.begin(), transfers.mine.end(), std::byte{0xee});
      worker.join();
      REQUIRE(
          std::all_of(transfers.mine.begin(), transfers.mine.end(), [](std::byte b) { return b == std::byte{0xee}; }));
      REQUIRE_FALSE(transfers.memory.is_pending());
    }
  }

  SECTION("mapped memory is the owner's, within the memory of its key") {
    Transfers transfers(pair, 100'000);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    std::shared_ptr<const void> kept;
    std::byte* const at = transfers.memory.map(kOwner, transfers.address(100, 1000), 1000, &kept);
    if (at != nullptr) {
      CHECK(at[0] == pattern(1, 100));
      at[0] = std::byte{0x5a};
      CHECK(transfers.theirs.get()[100] == std::byte{0x5a});
    } else {
      CHECK((transfers.memory.is_far() || !pair.puts));
    }
    if (const RemoteAddress own = transfers.address(0, 1); own.key != 0) {
      RemoteAddress far = own;
      far.offset = std::uint64_t{1} << 40;
      CHECK(transfers.memory.map(kOwner, far, 1, &kept) == nullptr);
      CHECK(transfers.memory.map(kOwner, own, std::size_t{1} << 40, &kept) == nullptr);
      CHECK(transfers.memory.get_now({kOwner, far, transfers.mine.data(), 1, 0}) != 0);
      Transfer beyond{kOwner, far, transfers.mine.data(), 1000, 9};
      transfers.memory.get(beyond);
      const Transferred ended = transfers.wait();
      CHECK(ended.token == 9);
      CHECK(ended.error != 0);
    }
  }

  SECTION("an unknown key is refused") {
    Transfers transfers(pair, 100);
    std::shared_ptr<const void> kept;
    if (transfers.memory.is_far()) {
      CHECK(transfers.memory.prepare(kOwner, 1) == RemoteMemory::State::refused);
      CHECK(transfers.memory.prepare({7, -1}, transfers.address(0, 1).key) == RemoteMemory::State::refused);
    } else if (!transfers.memory.shares_addresses() && transfers.address(0, 1).key != 0) {
      const std::uint64_t unknown = transfers.address(0, 1).key + 1;
      CHECK(transfers.memory.prepare(kOwner, unknown) == RemoteMemory::State::asked);
      transfers.memory.answered(unknown, {});
      CHECK(transfers.memory.prepare(kOwner, unknown) == RemoteMemory::State::refused);
      CHECK(transfers.memory.map(kOwner, {1, unknown, 0}, 1, &kept) == nullptr);
    }
  }

  if (!pair.memory().is_far()) return;

  SECTION("far memory is reached between regions only") {
    Transfers transfers(pair, 100'000);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    std::vector<std::byte> elsewhere(1000);
    Transfer transfer = transfers.of(0, elsewhere.size(), 5);
    transfer.local = elsewhere.data();
    transfers.memory.get(transfer);
    CHECK(transfers.wait().error == ENOTSUP);
    memory::Buffers buffers;
    std::shared_ptr<const void> kept;
    const auto buffer = buffers.find(elsewhere.data(), elsewhere.size());
    CHECK_FALSE(transfers.owner->give_out(kUser, buffer, RemoteMemory::Use::gets, &kept));
    CHECK(kept == nullptr);
    // The way is as good as before.
    transfers.memory.get(transfers.of(0, 100'000, 6));
    CHECK(transfers.wait().error == 0);
    CHECK(transfers.got(0, 100'000));
  }

  SECTION("memory that its owner has taken back or freed is not reached, and transfers under way end") {
    Transfers transfers(pair, 3'000'000);
    REQUIRE(transfers.prepare() == RemoteMemory::State::ready);
    const bool frees = GENERATE(false, true), is_under_way = GENERATE(false, true);
    CAPTURE(frees, is_under_way);
    const Transfer transfer = transfers.of(0, 3'000'000, 5);
    if (is_under_way) transfers.memory.get(transfer);
    if (frees) {
      transfers.theirs.reset();
      transfers.kept.reset();
    } else {
      transfers.owner->take_back(transfer.at);
    }
    if (!is_under_way) transfers.memory.get(transfer);
    const Transferred ended = transfers.wait();
    CHECK(ended.token == 5);
    if (!is_under_way) CHECK(ended.error != 0);
    if (ended.error != 0) CHECK(transfers.memory.prepare(kOwner, transfer.at.key) == RemoteMemory::State::refused);
    CHECK_FALSE(transfers.memory.is_pending());
  }
}

}  // namespace anello::testing
