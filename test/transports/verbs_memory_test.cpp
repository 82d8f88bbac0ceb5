// Remote memory over verbs. All cases need the devices of tools/rdma-vm.
#include "memory/region.h"
#include "transports/memory_conformance.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/remote_memory.h"
#include "transports/verbs_lanes.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include <poll.h>

using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

TEST_CASE("verbs keeps the contract of remote memory", "[adapter]") {
  keeps_contract_of_memory([] {
    const auto lane = std::make_shared<Lane>(met());
    MemoryPair pair;
    pair.transport = lane->keep[0];
    pair.owner = lane->keep[1]->remote_memory();
    pair.allocate = in_region;
    pair.keep = lane;
    return pair;
  });
}

namespace {

constexpr std::size_t kPiece = VerbsTransferRail::kMostPieceBytes;

// Two ends and a region on each side.
struct Ends {
  explicit Ends(std::size_t bytes, const VerbsSettings& settings = on("rxe0"))
      : memory({VerbsPort::open(settings)}),
        theirs({VerbsPort::open(on("rxe1"))}),
        local(in_region(bytes)),
        remote(in_region(bytes)) {
    auto sockets = connected(false);
    end = std::make_unique<VerbsEndpoint>(1, memory, std::move(sockets.first));
    peer = std::make_unique<VerbsEndpoint>(0, theirs, std::move(sockets.second));
    meet(*end, *peer);
  }
  Transfer transfer(std::size_t bytes, Token token) {
    memory::Buffers buffers;
    const RemoteAddress at =
        theirs.give_out({0, -1}, buffers.find(remote.get(), bytes), RemoteMemory::Use::puts, &kept);
    return {{1, -1}, at, local.get(), bytes, token};
  }
  int wait(Token token) {
    const Deadline limit = Deadline::in_ms(20'000);
    while (!limit.passed()) {
      if (peer != nullptr) peer->incoming();
      end->incoming();
      if (const auto ended = memory.poll()) return ended->token == token ? ended->error : -1;
      ::sched_yield();
    }
    return -2;
  }

  VerbsRemoteMemory memory, theirs;
  std::shared_ptr<std::byte> local, remote;
  std::shared_ptr<const void> kept;
  std::unique_ptr<VerbsEndpoint> end, peer;
};

}  // namespace

TEST_CASE("a transfer makes as few requests, completions and packets as its size allows, and nothing on the lane",
          "[adapter]") {
  const std::size_t bytes = GENERATE(std::size_t{1}, kPiece, kPiece + 1, 16 * kPiece, 21 * kPiece);
  const bool puts = GENERATE(false, true);
  CAPTURE(bytes, puts);
  Ends ends(bytes);
  const VerbsCounts lane = ends.end->counts();
  const std::uint64_t packets_before = counter_of("rxe1", "sent_pkts");
  Transfer transfer = ends.transfer(bytes, 3);
  puts ? ends.memory.put(transfer) : ends.memory.get(transfer);
  REQUIRE(ends.wait(3) == 0);
  const VerbsCounts& counts = ends.end->transfers().counts();
  const std::uint64_t pieces = (bytes + kPiece - 1) / kPiece;
  CHECK((puts ? counts.writes : counts.reads) == pieces);
  CHECK((puts ? counts.reads : counts.writes) == 0);
  CHECK((puts ? counts.bytes : counts.bytes_read) == bytes);
  // The device serves more reads than this transport has under way; each batch is half of those.
  const std::uint64_t batches = (pieces + VerbsTransferRail::kMostUnderWay / VerbsTransferRail::kBatches - 1) /
                                (VerbsTransferRail::kMostUnderWay / VerbsTransferRail::kBatches);
  const std::uint64_t first = is_over_iwarp() ? 1 : 0;  // SEND
  CHECK(counts.completions == batches + first);
  CHECK(ends.end->transfers().batches() == batches);
  CHECK(ends.end->counts().writes == lane.writes);
  CHECK(ends.peer->transfers().counts().completions == first);
  CHECK(ends.memory.registrations().made() == 1);
  // The answer to a read has packets of the path's MTU; those of a write go the other way.
  if (puts || is_over_iwarp()) return;
  const std::uint64_t packets = counter_of("rxe1", "sent_pkts") - packets_before;
  const std::uint64_t least = (bytes + 4095) / 4096;
  CHECK(packets >= least);
  CHECK(packets <= least * 11 / 10 + 2);
}

TEST_CASE("a transfer that the peer's adapter refuses ends the transfers between the two, and not their lane",
          "[adapter]") {
  Ends ends(100'000);
  Transfer wrong = ends.transfer(1000, 1);
  wrong.at.key ^= 0x100;  // another key of the adapter's
  ends.memory.get(wrong);
  CHECK(ends.wait(1) == ECONNABORTED);
  CHECK(ends.end->transfers().is_over());
  // The lane tells the peer, and goes on.
  const Deadline deadline = Deadline::in_ms(20'000);
  while (!ends.peer->transfers().is_over()) {
    ends.end->incoming();
    ends.peer->incoming();
    REQUIRE_FALSE(deadline.passed());
  }
  Collector collector(*ends.peer), back(*ends.end);
  CHECK(move(*ends.end, collector, 0, 50'000));
  CHECK(move(*ends.peer, back, 1, 50'000));
  CHECK(ends.memory.prepare({1, -1}, wrong.at.key) == RemoteMemory::State::refused);
}

TEST_CASE("transfers end when the peer ends, and a sleeper hears of both", "[adapter]") {
  Ends ends(8'000'000);
  ends.memory.get(ends.transfer(8'000'000, 1));
  TestArena arena(2);
  CHECK(sleep_on(*ends.end, arena, 0));
  CHECK(ends.wait(1) == 0);
  ends.memory.get(ends.transfer(8'000'000, 2));
  ends.peer.reset();
  const int error = ends.wait(2);
  CHECK((error == 0 || error == ECONNABORTED));
  ends.memory.get(ends.transfer(1000, 3));
  CHECK(ends.wait(3) == ECONNABORTED);
}

TEST_CASE("a withdrawn transfer whose pieces do not end is ended, and does not hold the rank for long", "[adapter]") {
  VerbsSettings settings = on("rxe0");
  settings.timeout = 21;  // the adapter would try for a minute
  settings.withdraw_ms = 100;
  Ends ends(8'000'000, settings);
  REQUIRE(std::system("tc qdisc add dev roce1 root netem loss 100%") == 0);  // nothing comes back
  ends.memory.get(ends.transfer(8'000'000, 1));
  const std::int64_t begun_ns = now_ns();
  ends.memory.withdraw(1);
  CHECK(now_ns() - begun_ns < 10'000'000'000);
  CHECK(std::system("tc qdisc del dev roce1 root") == 0);
  CHECK(ends.end->transfers().is_over());
  CHECK_FALSE(ends.memory.is_pending());
}

TEST_CASE("a port hears of its link, for which the descriptor of a lane becomes readable", "[adapter]") {
  Ends ends(1000);
  VerbsPortEvents& events = ends.memory.port()->events();
  CHECK_FALSE(events.is_link_down());
  for (const bool down : {true, false}) {
    CAPTURE(down);
    REQUIRE(run("ip link set " + link_of_first() + (down ? " down" : " up")));
    const Deadline deadline = Deadline::in_ms(20'000);
    while (events.is_link_down() != down) {
      REQUIRE_FALSE(deadline.passed());
      pollfd readable{ends.end->descriptor(), POLLIN, 0};
      REQUIRE(::poll(&readable, 1, 20'000) == 1);
      events.look();
    }
  }
  CHECK((is_over_iwarp() || ends.end->failure() == nullptr));
}

TEST_CASE("a lane whose link stays down while a frame is under way fails, and a sleeper hears of it", "[adapter]") {
  VerbsSettings settings = on("rxe0");
  settings.timeout = 14;  // 67 ms
  Ends ends(1000, settings);
  REQUIRE(std::system("tc qdisc add dev roce0 root netem loss 100%") == 0);
  const auto payload = payload_of(0, 1, 1000);
  REQUIRE(ends.end->send(header_of(0, 1, 1000), payload.data()));
  REQUIRE(run("ip link set " + link_of_first() + " down"));
  TestArena arena(2);
  const Deadline deadline = Deadline::in_ms(20'000);
  while (ends.end->failure() == nullptr && !deadline.passed()) {
    sleep_on(*ends.end, arena, 0);
    ends.end->incoming();
  }
  CHECK(run("tc qdisc del dev roce0 root; ip link set " + link_of_first() + " up"));
  REQUIRE(ends.end->failure() != nullptr);
  CHECK(ends.end->failure()->code() == ANELLO_ERR_PEER_LOST);
  CHECK_THAT(ends.end->failure()->text(), Catch::Contains("the link of this rank's port is down"));
  // The port is used by other tests.
  while (ends.memory.port()->events().is_link_down() && !deadline.passed()) ends.memory.port()->events().look();
}

TEST_CASE("an adapter that fails ends its lanes and transfers, and is named", "[adapter]") {
  Ends ends(8'000'000);
  ends.memory.get(ends.transfer(8'000'000, 1));
  ibv_async_event fatal{};
  fatal.event_type = IBV_EVENT_DEVICE_FATAL;
  ends.memory.port()->events().take(fatal);
  poll_until_failure(*ends.end);
  CHECK(ends.end->failure()->code() == ANELLO_ERR_SYSTEM);
  CHECK_THAT(ends.end->failure()->text(),
             Catch::Contains(named("rxe0 port 1 has failed")) && Catch::Contains("rank 1"));
  CHECK(ends.wait(1) == ECONNABORTED);
  CHECK(ends.theirs.port()->events().has_failed() == false);
}

TEST_CASE("registered memory is kept within the limit, while it is not in use and its region lives", "[adapter]") {
  VerbsSettings settings = on("rxe0");
  settings.cache = 300'000;
  VerbsRegistrations registrations(VerbsPort::open(settings), settings.cache);
  const auto buffer_of = [](const std::shared_ptr<std::byte>& memory) {
    return memory::Buffers().find(memory.get(), 1);
  };
  const auto one = in_region(102'400), two = in_region(102'400), large = in_region(400'000);
  auto third = in_region(102'400);
  VerbsRegistrations::Held held = registrations.of(buffer_of(one), VerbsAccess::peers_load);
  REQUIRE(held != nullptr);
  CHECK(registrations.of(buffer_of(one), VerbsAccess::peers_load) == held);
  CHECK(registrations.of(buffer_of(large), VerbsAccess::peers_load) == nullptr);
  CHECK(registrations.of(buffer_of(two), VerbsAccess::peers_load) != nullptr);
  CHECK(registrations.registered_bytes() == 204'800);
  // The third takes the place of the second, as the first is in use.
  CHECK(registrations.of(buffer_of(third), VerbsAccess::peers_load) != nullptr);
  CHECK(registrations.registered_bytes() == 204'800);
  CHECK(registrations.of(buffer_of(one), VerbsAccess::peers_load) == held);
  CHECK(registrations.made() == 3);
  third.reset();
  CHECK(registrations.registered_bytes() == 102'400);
  CHECK(registrations.of({}, VerbsAccess::peers_load) == nullptr);
}
