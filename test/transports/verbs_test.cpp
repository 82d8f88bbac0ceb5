#include "base/clock.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/memory_conformance.h"
#include "transports/verbs/address.h"
#include "transports/verbs/device_filter.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/greeting.h"
#include "transports/verbs/inflow.h"
#include "transports/verbs/remote_memory.h"
#include "transports/verbs/transport.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

// Cases with the tag [adapter] need the devices of tools/rdma-vm.
using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

namespace {

VerbsSettings on(const char* device) {
  VerbsSettings settings;
  settings.devices = device;
  return settings;
}

// Both ends exist, and have not heard of each other.
Lane unmet(const char* one = "rxe0", const char* other = "rxe1") {
  auto sockets = connected(false);
  Lane lane;
  for (const char* device : {one, other}) lane.keep.push_back(make_verbs(on(device)));
  lane.end[0] = lane.keep[0]->open(1, -1, std::move(sockets.first));
  lane.end[1] = lane.keep[1]->open(0, -1, std::move(sockets.second));
  return lane;
}

// A greeting, then its confirmation, each way.
void meet(Endpoint& one, Endpoint& other) {
  for (int turn = 0; turn < 100; ++turn) {
    REQUIRE(one.incoming() == nullptr);
    REQUIRE(other.incoming() == nullptr);
    ::sched_yield();
  }
}

Lane met(const char* one = "rxe0", const char* other = "rxe1") {
  Lane lane = unmet(one, other);
  meet(*lane.end[0], *lane.end[1]);
  return lane;
}

// Of the driver, since the device was made. The kernel shows values of up to 10 ms before.
std::uint64_t counter_of(const std::string& device, const std::string& name) {
  ::usleep(50'000);
  std::uint64_t count = 0;
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + name);
  REQUIRE(file >> count);
  return count;
}

bool move(Endpoint& from, Collector& to, std::uint32_t frame, std::size_t bytes) {
  const auto payload = payload_of(0, frame, bytes);
  const Deadline deadline = Deadline::in_ms(20'000);
  bool sent = false, arrived = false;
  while ((!sent || !arrived) && !deadline.passed()) {
    if (!sent) sent = from.send(header_of(0, frame, bytes), payload.data());
    if (!arrived) arrived = to.poll();
  }
  return arrived && difference(to.header(), to.payload(), 0, frame, bytes).empty();
}

void poll_until_failure(Endpoint& end) {
  const Deadline deadline = Deadline::in_ms(20'000);
  while (end.failure() == nullptr && !deadline.passed()) end.incoming();
  REQUIRE(end.failure() != nullptr);
}

PortAddress address_of(std::uint8_t link, std::initializer_list<std::uint8_t> gid) {
  PortAddress address;
  address.link = link;
  address.mtu = 5;
  std::copy(gid.begin(), gid.end(), address.gid.begin());
  return address;
}

}  // namespace

// ---- Without an adapter ----

TEST_CASE("a filter of devices takes names by their beginning, exactly, or all others") {
  CHECK(takes_device("", "mlx5_0", 1));
  CHECK(takes_device("mlx5", "mlx5_0", 1));
  CHECK(takes_device("rxe0,mlx5_1", "mlx5_12", 1));
  CHECK_FALSE(takes_device("rxe0,mlx5_1", "mlx5_0", 1));
  CHECK_FALSE(takes_device("=mlx5_1", "mlx5_12", 1));
  CHECK(takes_device("=mlx5_1:2", "mlx5_1", 2));
  CHECK_FALSE(takes_device("=mlx5_1:2", "mlx5_1", 1));
  CHECK(takes_device("^mlx5_1", "mlx5_0", 1));
  CHECK_FALSE(takes_device("^mlx5_1", "mlx5_12", 1));
  CHECK(takes_device("^=mlx5_1:1", "mlx5_1", 2));
  CHECK(takes_device("^", "mlx5_1", 2));
}

TEST_CASE("ports reach each other on one kind of link, with one kind of address or one subnet") {
  const PortAddress ipv4 = address_of(PortAddress::kEthernet, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1});
  const PortAddress ipv6 = address_of(PortAddress::kEthernet, {0x20, 1});
  const PortAddress subnet = address_of(PortAddress::kInfiniBand, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 7});
  const PortAddress other_subnet = address_of(PortAddress::kInfiniBand, {0xfe, 0x80, 0, 0, 0, 0, 0, 1, 7});
  const auto reach = [](const std::string& a, const std::string& b) {
    const Place one{.address = a}, other{.address = b};
    CHECK(verbs_reaches(one, other) == verbs_reaches(other, one));
    if (!verbs_reaches(one, other)) CHECK(verbs_why_unreached(one, other).find("verbs") == 0);
    return verbs_reaches(one, other);
  };
  CHECK(reach(ipv4.bytes(), ipv4.bytes()));
  CHECK(reach(subnet.bytes(), subnet.bytes()));
  CHECK_FALSE(reach(ipv4.bytes(), ipv6.bytes()));
  CHECK_FALSE(reach(ipv4.bytes(), subnet.bytes()));
  CHECK_FALSE(reach(subnet.bytes(), other_subnet.bytes()));
  CHECK_FALSE(reach(ipv4.bytes(), ""));
  std::string wrong = ipv4.bytes();
  wrong[0] = 9;
  CHECK_FALSE(reach(wrong, wrong));
}

TEST_CASE("a peer cannot write more into the ring than it may") {
  std::vector<std::byte> ring(kLaneRingBytes);
  VerbsInflow inflow(ring.data());
  CHECK(inflow.arrive(kSlots));
  CHECK_FALSE(inflow.arrive(1));
  // A frame frees its slot, but the peer must have been told.
  REQUIRE(inflow.incoming() != nullptr);
  REQUIRE(inflow.incoming() != nullptr);
  CHECK(inflow.owed() == 1);
  CHECK_FALSE(inflow.arrive(1));
  CHECK(inflow.take_owed() == 1);
  CHECK(inflow.arrive(1));
}

TEST_CASE("a frame that announces more than any has is corrupt") {
  std::vector<std::byte> ring(kLaneRingBytes);
  FrameHeader header;
  header.bytes = kMaxFrameBytes + 1;
  std::memcpy(ring.data(), &header, sizeof header);
  VerbsInflow inflow(ring.data());
  CHECK(inflow.arrive(1));
  CHECK(inflow.incoming() == nullptr);
  CHECK(inflow.corrupt());
}

TEST_CASE("a greeting with impossible values is refused") {
  VerbsGreeting right;
  right.port = address_of(PortAddress::kEthernet, {0x20, 1});
  CHECK_FALSE(right.is_right());  // no queue pair
  right.lane.number = 17;
  CHECK(right.is_right());
  VerbsGreeting other_magic = right, other_ring = right, other_pair = right, other_mtu = right, other_memory = right;
  other_magic.magic ^= 1;
  other_ring.ring_slots = kSlots * 2;
  other_pair.lane.number = 0x1000000;
  other_mtu.port.mtu = 6;
  other_memory.memory.first_packet = 0x1000000;
  for (const VerbsGreeting& wrong : {other_magic, other_ring, other_pair, other_mtu, other_memory})
    CHECK_FALSE(wrong.is_right());
}

// ---- With adapters ----

TEST_CASE("verbs keeps the contract of a lane", "[adapter]") {
  keeps_contract([] { return met(); });
}

TEST_CASE("verbs moves frames within one device", "[adapter]") {
  Lane lane = met("rxe1", "rxe1");
  CHECK(soak(lane, 11, 60) == "");
}

TEST_CASE("frames given to a lane before the peer has greeted arrive", "[adapter]") {
  Lane lane = unmet();
  const auto payload = payload_of(0, 3, 5000);
  REQUIRE(lane.end[0]->send(header_of(0, 3, 5000), payload.data()));
  CHECK(lane.end[0]->on_the_way() > 0);
  Collector to(*lane.end[1]);
  const Deadline deadline = Deadline::in_ms(20'000);
  while (!to.poll()) {
    lane.end[0]->incoming();
    REQUIRE_FALSE(deadline.passed());
  }
  CHECK(difference(to.header(), to.payload(), 0, 3, 5000) == "");
  while (lane.end[0]->on_the_way() > 0) REQUIRE_FALSE(deadline.passed());
}

TEST_CASE("a frame that was refused and is not wanted any more does not keep a rank awake", "[adapter]") {
  Lane lane = met();
  std::uint32_t sequence = 0;
  while (lane.end[0]->send(header_of(0, sequence, 0), nullptr)) ++sequence;
  lane.end[0]->detach();
  Collector to(*lane.end[1]);
  const Deadline deadline = Deadline::in_ms(20'000);
  for (std::uint32_t taken = 0; taken < sequence;) {
    taken += to.poll() ? 1 : 0;
    REQUIRE_FALSE(deadline.passed());
  }
  ::usleep(100'000);
  lane.end[0]->incoming();  // takes the credit
  CHECK_FALSE(lane.end[0]->before_sleep());
}

TEST_CASE("a peer that ends before or after its greeting, or greets wrongly, is lost", "[adapter]") {
  auto sockets = connected(false);
  const auto transport = make_verbs(on("rxe0"));
  const auto end = transport->open(7, -1, std::move(sockets.first));
  const int what = GENERATE(0, 1, 2);
  VerbsGreeting wrong;
  if (what == 1) REQUIRE(::send(sockets.second.get(), &wrong, sizeof wrong, 0) == sizeof wrong);
  if (what == 2) REQUIRE(::send(sockets.second.get(), &wrong, 10, 0) == 10);
  if (what != 1) sockets.second.reset();
  poll_until_failure(*end);
  CHECK(end->failure()->code() == ANELLO_ERR_PEER_LOST);
  CHECK(end->failure()->peer() == 7);
  CHECK_THAT(end->failure()->text(), Catch::Contains("rank 7") && Catch::Contains("rxe0 port 1"));
  CHECK_FALSE(end->send(header_of(0, 0, 0), nullptr));
}

TEST_CASE("a lane makes as few requests, bytes, completions and packets as its shape allows", "[adapter]") {
  const std::size_t bytes = GENERATE(0, 200, 2000, 2001, 100'000, kMaxFrameBytes);
  constexpr std::uint32_t kFrames = 24;
  CAPTURE(bytes);
  auto sockets = connected(false);
  VerbsRemoteMemory one(VerbsPort::open(on("rxe0"))), other(VerbsPort::open(on("rxe1")));
  VerbsEndpoint from(1, one, std::move(sockets.first)), to(0, other, std::move(sockets.second));
  meet(from, to);
  Collector collector(to);
  const std::uint64_t packets_before = counter_of("rxe0", "sent_pkts");
  for (std::uint32_t frame = 0; frame < kFrames; ++frame) REQUIRE(move(from, collector, frame, bytes));
  const Deadline deadline = Deadline::in_ms(20'000);
  while (from.on_the_way() > 0) REQUIRE_FALSE(deadline.passed());

  // Whole slots, cut at the ring's end and in pieces; a lane without room may cut once more.
  const std::uint64_t slots = kFrames * slots_of(kFrameHead + bytes);
  const std::uint64_t pieces = kFrames * ((slots_of(kFrameHead + bytes) + kPieceSlots - 1) / kPieceSlots);
  const std::uint64_t rounds = slots / kSlots + 1;
  const bool fits = slots_of(kFrameHead + bytes) < kSlots / 2;
  CHECK(from.counts().bytes == kFrames * (kFrameHead + bytes));
  CHECK(from.counts().writes >= pieces);
  CHECK(from.counts().writes <= pieces + rounds + (fits ? 0 : slots / kCreditSlots * 2));
  // The other end only returns credit, a quarter of the ring at a time.
  CHECK(to.counts().bytes == 0);
  CHECK(to.counts().writes <= slots / kCreditSlots);
  CHECK(to.counts().writes + 1 >= slots / kSlots);
  // One completion for each piece and for each credit.
  CHECK(from.counts().completions <= from.counts().writes + to.counts().writes);
  CHECK(from.counts().completions >= from.counts().writes);
  // Data in packets of the path's MTU, and an acknowledgement for each credit; under load a packet may be sent again.
  const std::uint64_t packets = counter_of("rxe0", "sent_pkts") - packets_before;
  const std::uint64_t least = kFrames * ((kFrameHead + bytes + 4095) / 4096);
  CHECK(packets >= least);
  CHECK(packets <= (least + from.counts().writes + to.counts().writes) * 11 / 10 + 2);
}

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

constexpr std::size_t kPiece = VerbsTransfers::kMostPieceBytes;

// Two ends and a region on each side.
struct Ends {
  explicit Ends(std::size_t bytes, const VerbsSettings& settings = on("rxe0"))
      : memory(VerbsPort::open(settings)),
        theirs(VerbsPort::open(on("rxe1"))),
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
  const std::uint64_t batches = (pieces + VerbsTransfers::kMostUnderWay / VerbsTransfers::kBatches - 1) /
                                (VerbsTransfers::kMostUnderWay / VerbsTransfers::kBatches);
  CHECK(counts.completions == batches);
  CHECK(ends.end->transfers().batches() == batches);
  CHECK(ends.end->counts().writes == lane.writes);
  CHECK(ends.peer->transfers().counts().completions == 0);
  CHECK(ends.memory.registrations().made() == 1);
  // The answer to a read has packets of the path's MTU; those of a write go the other way.
  if (puts) return;
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

TEST_CASE("a port hears of its link, for which the descriptor of a lane becomes readable", "[adapter]") {
  Ends ends(1000);
  VerbsPortEvents& events = ends.memory.port()->events();
  CHECK_FALSE(events.is_link_down());
  for (const bool down : {true, false}) {
    CAPTURE(down);
    REQUIRE(std::system(down ? "ip link set roce1 down" : "ip link set roce1 up") == 0);  // and its other end, roce0
    const Deadline deadline = Deadline::in_ms(20'000);
    while (events.is_link_down() != down) {
      REQUIRE_FALSE(deadline.passed());
      pollfd readable{ends.end->descriptor(), POLLIN, 0};
      REQUIRE(::poll(&readable, 1, 20'000) == 1);
      events.look();
    }
  }
  CHECK(ends.end->failure() == nullptr);
}

TEST_CASE("an adapter that fails ends its lanes and transfers, and is named", "[adapter]") {
  Ends ends(8'000'000);
  ends.memory.get(ends.transfer(8'000'000, 1));
  ibv_async_event fatal{};
  fatal.event_type = IBV_EVENT_DEVICE_FATAL;
  ends.memory.port()->events().take(fatal);
  poll_until_failure(*ends.end);
  CHECK(ends.end->failure()->code() == ANELLO_ERR_SYSTEM);
  CHECK_THAT(ends.end->failure()->text(), Catch::Contains("rxe0 port 1 has failed") && Catch::Contains("rank 1"));
  CHECK(ends.wait(1) == ECONNABORTED);
  CHECK(ends.theirs.port()->events().has_failed() == false);
}

TEST_CASE("registered memory is kept within the limit, while it is not in use and its region lives", "[adapter]") {
  VerbsSettings settings = on("rxe0");
  settings.cache = 300'000;
  VerbsRegistrations registrations(VerbsPort::open(settings), settings.cache);
  const auto spot_of = [](const std::shared_ptr<std::byte>& memory) { return memory::find_region(memory.get(), 1); };
  const auto one = in_region(102'400), two = in_region(102'400), large = in_region(400'000);
  auto third = in_region(102'400);
  VerbsRegistrations::Held held = registrations.of(spot_of(one), VerbsAccess::peers_load);
  REQUIRE(held != nullptr);
  CHECK(registrations.of(spot_of(one), VerbsAccess::peers_load) == held);
  CHECK(registrations.of(spot_of(large), VerbsAccess::peers_load) == nullptr);
  CHECK(registrations.of(spot_of(two), VerbsAccess::peers_load) != nullptr);
  CHECK(registrations.registered_bytes() == 204'800);
  // The third takes the place of the second, as the first is in use.
  CHECK(registrations.of(spot_of(third), VerbsAccess::peers_load) != nullptr);
  CHECK(registrations.registered_bytes() == 204'800);
  CHECK(registrations.of(spot_of(one), VerbsAccess::peers_load) == held);
  CHECK(registrations.made() == 3);
  third.reset();
  CHECK(registrations.registered_bytes() == 102'400);
  CHECK(registrations.of({}, VerbsAccess::peers_load) == nullptr);
}

TEST_CASE("a port is chosen by its name, and each that is not says why", "[adapter]") {
  CHECK(make_verbs(on("=rxe1"))->name() == "verbs");
  CHECK_THROWS_WITH(make_verbs(on("mlx5")), Catch::Contains("rxe0 port 1: left out by ANELLO_VERBS_DEVICES") &&
                                                Catch::Contains("rxe1 port 1: left out"));
  VerbsSettings beyond = on("rxe0");
  beyond.gid_index = 200;
  CHECK_THROWS_WITH(make_verbs(beyond), Catch::Contains("rxe0 port 1: no address in entry 200"));
  CHECK(verbs_why_not() == "");
  CHECK(PortAddress::from(verbs_address())->is_ipv4());
}
