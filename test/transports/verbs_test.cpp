#include "support/catch.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/verbs/address.h"
#include "transports/verbs/device_filter.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/greeting.h"
#include "transports/verbs/inflow.h"
#include "transports/verbs_lanes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

// Cases with the tag [adapter] need the devices of tools/rdma-vm.
using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

namespace {

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
  CHECK(place_of_device("=mlx5_3,mlx5_1", "mlx5_1", 1) == 1);
  CHECK(place_of_device("mlx5_3,mlx5_1:2,", "mlx5_3", 1) == 0);
}

TEST_CASE("ports reach each other on one kind of link, with one kind of address or one subnet") {
  const PortAddress ipv4 = address_of(PortAddress::kEthernet, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1});
  const PortAddress ipv6 = address_of(PortAddress::kEthernet, {0x20, 1});
  const PortAddress subnet = address_of(PortAddress::kInfiniBand, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 7});
  const PortAddress other_subnet = address_of(PortAddress::kInfiniBand, {0xfe, 0x80, 0, 0, 0, 0, 0, 1, 7});
  const PortAddress iwarp = address_of(PortAddress::kIwarp, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1});
  const auto reach = [](const std::string& a, const std::string& b) {
    const Place one{.address = a}, other{.address = b};
    CHECK(verbs_reaches(one, other) == verbs_reaches(other, one));
    if (!verbs_reaches(one, other)) CHECK(verbs_why_unreached(one, other).find("verbs") == 0);
    return verbs_reaches(one, other);
  };
  CHECK(reach(ipv4.bytes(), ipv4.bytes()));
  CHECK(reach(subnet.bytes(), subnet.bytes()));
  CHECK(reach(iwarp.bytes(), iwarp.bytes()));
  CHECK_FALSE(reach(iwarp.bytes(), ipv4.bytes()));
  CHECK(iwarp.text() == "iWARP, 10.0.0.1");
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
  CHECK(inflow.arrive(0, kSlots));
  CHECK(inflow.arrive(0, 0));  // a number alone
  CHECK_FALSE(inflow.arrive(0, 1));
  // A frame frees its slot, but the peer must have been told.
  REQUIRE(inflow.incoming() != nullptr);
  REQUIRE(inflow.incoming() != nullptr);
  CHECK(inflow.owed() == 1);
  CHECK_FALSE(inflow.arrive(0, 1));
  CHECK(inflow.take_credit() == 1);
  CHECK_FALSE(inflow.arrive(1, 1));
  CHECK(inflow.arrive(0, 1));
}

TEST_CASE("pieces that overtake each other are read in order, and none comes twice") {
  std::vector<std::byte> ring(kLaneRingBytes);
  FrameHeader header;
  header.bytes = 3 * kSlotBytes - kFrameHead;
  std::memcpy(ring.data(), &header, sizeof header);
  VerbsInflow inflow(ring.data());
  CHECK(inflow.arrive(2, 1));
  CHECK(inflow.incoming() == nullptr);
  CHECK_FALSE(inflow.has_more());
  CHECK(inflow.arrive(0, 1));
  REQUIRE(inflow.incoming() != nullptr);
  CHECK(inflow.arrived() == kSlotBytes - kFrameHead);
  CHECK_FALSE(inflow.arrive(2, 1));
  CHECK(inflow.arrive(1, 1));
  CHECK(inflow.arrived() == header.bytes);
}

TEST_CASE("a frame that announces more than any has is corrupt") {
  std::vector<std::byte> ring(kLaneRingBytes);
  FrameHeader header;
  header.bytes = kMaxFrameBytes + 1;
  std::memcpy(ring.data(), &header, sizeof header);
  VerbsInflow inflow(ring.data());
  CHECK(inflow.arrive(0, 1));
  CHECK(inflow.incoming() == nullptr);
  CHECK(inflow.corrupt());
}

TEST_CASE("keys that the peer tells come before the frame behind them, and are no frame for the lane's user") {
  std::vector<std::byte> ring(kLaneRingBytes);
  const auto put = [&](std::size_t slot, std::uint32_t bytes, FrameUse use, const void* payload) {
    FrameHeader header;
    header.bytes = bytes;
    header.tag = std::uint32_t(slot);
    std::memcpy(ring.data() + slot * kSlotBytes, &header, sizeof header);
    std::memcpy(ring.data() + slot * kSlotBytes + sizeof header, &use, sizeof use);
    if (payload != nullptr) std::memcpy(ring.data() + slot * kSlotBytes + kFrameHead, payload, bytes);
  };
  const MemoryKeys keys{std::uint64_t{5} << 32 | 77, {77, 88}};
  put(0, sizeof keys, FrameUse::keys, &keys);
  put(1, 0, FrameUse::user, nullptr);
  VerbsInflow inflow(ring.data());
  CHECK(inflow.arrive(0, 2));
  REQUIRE(inflow.has_more());
  const FrameHeader* const header = inflow.incoming();
  REQUIRE(header != nullptr);
  CHECK(header->tag == 1);
  REQUIRE(inflow.keys().size() == 1);
  CHECK(inflow.keys().front() == keys);
  CHECK(inflow.owed() == 1);
  CHECK(inflow.incoming() == nullptr);
  CHECK(inflow.owed() == 2);
  // Neither may have another length, nor may there be other uses.
  for (const bool is_long : {true, false}) {
    put(2, is_long ? sizeof keys + 1 : 0, is_long ? FrameUse::keys : FrameUse(2), nullptr);
    VerbsInflow wrong(ring.data() + 2 * kSlotBytes);
    CHECK(wrong.arrive(0, 1));
    CHECK(wrong.incoming() == nullptr);
    CHECK(wrong.corrupt());
  }
}

TEST_CASE("both ends forget keys at the same note, and only news is told") {
  KeyBook book;
  const auto keys = [](std::uint64_t name) { return MemoryKeys{name, {std::uint32_t(name), std::uint32_t(name + 1)}}; };
  for (std::uint64_t name = 1; name <= KeyBook::kMost; ++name) REQUIRE(book.note(keys(name)));
  CHECK_FALSE(book.note(keys(1)));
  CHECK(book.find(1, 1) == 2);
  CHECK(book.find(1, 2) == 0);
  MemoryKeys other = keys(1);
  other.of_port[1] = 9;
  CHECK(book.note(other));
  CHECK(book.find(1, 1) == 9);
  CHECK(book.note(keys(KeyBook::kMost + 1)));
  CHECK(book.find(1, 1) == 0);
  CHECK(book.find(1, 0) == 1);  // its name has it
  CHECK(book.note(keys(1)));
}

TEST_CASE("a greeting with impossible values is refused") {
  VerbsGreeting right;
  right.ports = 2;
  for (RailOffer* offer : {&right.offers[0], &right.offers[1]})
    offer->port = address_of(PortAddress::kEthernet, {0x20, 1});
  right.offers[0].pair.number = 17;
  CHECK_FALSE(right.is_right());  // the second has no queue pair
  right.offers[1].pair.number = 18;
  CHECK(right.is_right());
  VerbsGreeting other_magic = right, other_ring = right, other_pair = right, other_mtu = right, other_memory = right,
                other_listener = right, no_port = right, many_ports = right;
  other_magic.magic ^= 1;
  other_ring.ring_slots = kSlots * 2;
  other_pair.offers[1].pair.number = 0x1000000;
  other_mtu.offers[0].port.mtu = 6;
  other_memory.offers[1].memory.first_packet = 0x1000000;
  other_listener.offers[0].pair.tcp_port = 0x10000;
  no_port.ports = 0;
  many_ports.ports = kMostRails + 1;
  for (const VerbsGreeting& wrong :
       {other_magic, other_ring, other_pair, other_mtu, other_memory, other_listener, no_port, many_ports})
    CHECK_FALSE(wrong.is_right());
}

TEST_CASE("ports of two hosts go together by kind and subnet, and then in their order") {
  const PortAddress ipv4 = address_of(PortAddress::kEthernet, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1});
  const PortAddress subnet = address_of(PortAddress::kInfiniBand, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 7});
  const PortAddress other_subnet = address_of(PortAddress::kInfiniBand, {0xfe, 0x80, 0, 0, 0, 0, 0, 1, 7});
  const std::vector<PortAddress> one{subnet, ipv4, other_subnet, subnet}, other{other_subnet, subnet, subnet};
  CHECK(match_ports(one, other) == std::vector<int>{1, -1, 0, 2});
  CHECK(match_ports(other, one) == std::vector<int>{2, 0, 3});
  CHECK(match_ports({ipv4}, {subnet}) == std::vector<int>{-1});
  PortAddress iwarp = ipv4;
  iwarp.link = PortAddress::kIwarp;
  CHECK(match_ports({ipv4, iwarp}, {iwarp, iwarp}) == std::vector<int>{-1, 0});
}

TEST_CASE("a note about a rail that there is not, or that says nothing known, is refused") {
  RailNote note;
  CHECK_FALSE(note.is_right(2));
  note.kind = RailNote::down;
  CHECK(note.is_right(2));
  note.port = 2;
  CHECK_FALSE(note.is_right(2));
  note.port = 0;
  note.kind = RailNote::offer;
  CHECK_FALSE(note.is_right(2));  // without a queue pair
}

TEST_CASE("memory is registered with relaxed ordering where libibverbs knows it, and without elsewhere") {
  static unsigned flags = 0;
  VerbsLibrary library;
  library.reg_mr = [](ibv_pd*, void*, std::size_t, int access) {
    flags = unsigned(access);
    return static_cast<ibv_mr*>(nullptr);
  };
  std::byte memory{};
  CHECK(register_memory(library, nullptr, &memory, 1, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(flags == IBV_ACCESS_LOCAL_WRITE);
  library.reg_mr_with_hints = [](ibv_pd*, void* at, std::size_t, std::uint64_t address, unsigned access) {
    flags = address == reinterpret_cast<std::uintptr_t>(at) ? access : 0;
    return static_cast<ibv_mr*>(nullptr);
  };
  CHECK(register_memory(library, nullptr, &memory, 1, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(flags == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
}

// ---- With adapters ----

TEST_CASE("verbs keeps the contract of a lane", "[adapter][long]") {
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
  CHECK_THAT(end->failure()->text(), Catch::Contains("rank 7") && Catch::Contains(named("rxe0 port 1")));
  CHECK_FALSE(end->send(header_of(0, 0, 0), nullptr));
}

TEST_CASE("a lane makes as few requests, bytes, completions and packets as its shape allows", "[adapter]") {
  const std::size_t bytes = GENERATE(0, 200, 2000, 2001, 100'000, kMaxFrameBytes);
  constexpr std::uint32_t kFrames = 24;
  CAPTURE(bytes);
  auto sockets = connected(false);
  VerbsRemoteMemory one({VerbsPort::open(on("rxe0"))}), other({VerbsPort::open(on("rxe1"))});
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
  // One completion for each piece and for each credit. Over iWARP there may be a READ for each piece, too, and there is
  // the first SEND.
  const std::uint64_t more = is_over_iwarp() ? from.counts().writes + 1 : 0;
  CHECK(from.counts().completions <= from.counts().writes + to.counts().writes + more);
  CHECK(from.counts().completions >= from.counts().writes);
  if (is_over_iwarp()) return;
  // Data in packets of the path's MTU, and an acknowledgement for each credit; under load a packet may be sent again.
  const std::uint64_t packets = counter_of("rxe0", "sent_pkts") - packets_before;
  const std::uint64_t least = kFrames * ((kFrameHead + bytes + 4095) / 4096);
  CHECK(packets >= least);
  CHECK(packets <= (least + from.counts().writes + to.counts().writes) * 11 / 10 + 2);
}

TEST_CASE("a port is chosen by its name, and each that is not says why", "[adapter]") {
  CHECK(make_verbs(on("=rxe1"))->name() == "verbs");
  CHECK_THROWS_WITH(make_verbs(on("mlx5")), Catch::Contains(named("rxe0 port 1: left out by ANELLO_VERBS_DEVICES")) &&
                                                Catch::Contains(named("rxe1 port 1: left out")));
  const VerbsPorts ports = VerbsPort::open_all(on("=rxe2,rxe0"), kMostRails);
  REQUIRE(ports.size() == 2);
  CHECK(ports[0]->name() == named("rxe2 port 1"));
  CHECK(VerbsPort::open(on("=rxe2,rxe0"))->name() == named("rxe2 port 1"));
  CHECK(verbs_why_not() == "");
  CHECK(PortAddress::all_from(verbs_address()).size() == 4);
  if (is_over_iwarp()) return;  // which has no table of GIDs
  VerbsSettings beyond = on("rxe0");
  beyond.gid_index = 200;
  CHECK_THROWS_WITH(make_verbs(beyond), Catch::Contains("rxe0 port 1: no address in entry 200"));
}
