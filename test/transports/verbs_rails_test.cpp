// Lanes over verbs with two rails: the two cables of tools/rdma-vm. All cases need its devices.
#include "transports/verbs/endpoint.h"
#include "support/knob.h"
#include "transports/memory_conformance.h"
#include "transports/verbs_lanes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

namespace {

struct Rails {
  Rails() {
    for (VerbsSettings* settings : {&one_settings, &other_settings}) {
      settings->timeout = 16;  // 0.27 s
      settings->retry = 6;     // 7 is without end for rxe (Linux 6.1)
    }
    one = std::make_unique<VerbsRemoteMemory>(VerbsPort::open_all(one_settings, kMostRails));
    other = std::make_unique<VerbsRemoteMemory>(VerbsPort::open_all(other_settings, kMostRails));
    auto sockets = connected(false);
    end = std::make_unique<VerbsEndpoint>(1, *one, std::move(sockets.first));
    peer = std::make_unique<VerbsEndpoint>(0, *other, std::move(sockets.second));
    meet(*end, *peer, 2);
  }
  // Moves frames both ways at once until the condition holds.
  template <class Holds>
  void move_until(Holds holds) {
    Collector there(*peer), back(*end);
    const Deadline limit = Deadline::in_ms(60'000);
    do {
      const auto forth_bytes = payload_of(0, frame, kForth), back_bytes = payload_of(1, frame, kBack);
      bool sent = false, replied = false, came = false, came_back = false;
      while (!sent || !replied || !came || !came_back) {
        INFO(reason());
        REQUIRE_FALSE(limit.passed());
        if (!sent) sent = end->send(header_of(0, frame, kForth), forth_bytes.data());
        if (!replied) replied = peer->send(header_of(1, frame, kBack), back_bytes.data());
        came = came || there.poll();
        came_back = came_back || back.poll();
        if (came) peer->incoming();
        if (came_back) end->incoming();
      }
      REQUIRE(difference(there.header(), there.payload(), 0, frame, kForth) == "");
      REQUIRE(difference(back.header(), back.payload(), 1, frame, kBack) == "");
      ++frame;
    } while (!holds());
  }
  // The peer gives memory out, and tells its keys in a frame.
  RemoteAddress give_out(const std::shared_ptr<std::byte>& from, std::size_t bytes, std::shared_ptr<const void>* kept,
                         RemoteMemory::Use use = RemoteMemory::Use::gets) {
    memory::Buffers buffers;
    const RemoteAddress at = other->give_out({0, -1}, buffers.find(from.get(), bytes), use, kept);
    REQUIRE(bool(at));
    move_until([] { return true; });
    return at;
  }
  int wait(Token token) {
    const Deadline limit = Deadline::in_ms(40'000);
    while (!limit.passed()) {
      end->incoming();
      peer->incoming();
      if (const auto ended = one->poll()) return ended->token == token ? ended->error : -1;
    }
    return -2;
  }
  // The errno of a transfer from the peer's memory. before, meanwhile: shell commands, the latter once it is under way.
  int get(std::size_t bytes = 3'000'000, const std::string& before = "true", const std::string& meanwhile = "true") {
    const auto from = in_region(bytes), into = in_region(bytes);
    for (std::size_t i = 0; i < bytes; ++i) from.get()[i] = std::byte(i * 31 >> 3);
    std::shared_ptr<const void> kept;
    const RemoteAddress at = give_out(from, bytes, &kept);
    REQUIRE(run(before));
    one->get({{1, -1}, at, into.get(), bytes, 1});
    REQUIRE(run(meanwhile));
    const int error = wait(1);
    return error == 0 && !std::equal(from.get(), from.get() + bytes, into.get()) ? -1 : error;
  }
  std::uint64_t got_by(std::size_t rail) const { return end->transfers().rails()[rail]->counts().bytes_read; }
  std::string reason() const {
    std::string all;
    for (const auto* each : {end.get(), peer.get()}) all += each->failure() ? each->failure()->text() : "";
    return all;
  }

  static constexpr std::size_t kForth = 300'000, kBack = 30'000;

  VerbsSettings one_settings = on("rxe0,rxe2"), other_settings = on("rxe1,rxe3");
  std::unique_ptr<VerbsRemoteMemory> one, other;
  std::unique_ptr<VerbsEndpoint> end, peer;
  std::uint32_t frame = 0;
};

}  // namespace

TEST_CASE("a lane with two rails keeps its contract", "[adapter]") {
  keeps_contract([] { return met("rxe0,rxe2", "rxe1,rxe3"); });
}

TEST_CASE("long frames go over both rails, and short ones over one", "[adapter]") {
  Rails rails;
  const std::uint64_t first = sent_over(0), second = sent_over(2);
  for (int i = 0; i < 10; ++i) rails.move_until([] { return true; });
  const std::uint64_t by_first = sent_over(0) - first, by_second = sent_over(2) - second;
  // Those of one direction, ten times.
  CHECK(by_first + by_second > 10 * Rails::kForth);
  CHECK(by_first > 2 * Rails::kForth);
  CHECK(by_second > 2 * Rails::kForth);
}

TEST_CASE("a rail whose link goes down loses nothing, and is taken again when the link is up", "[adapter]") {
  Rails rails;
  const std::string link =
      std::array{"roce1", "roce2", "roce0"}[std::size_t(GENERATE(range(0, int(knob("RAIL_LINKS", 3)))))];
  CAPTURE(link);
  const int interface = link == "roce2" ? 2 : 0;
  const bool by_an_end = GENERATE(true, false);
  // Either the ports hear that the cable is out, or a switch drops everything and only tries without an answer tell.
  const std::string out =
      by_an_end ? "ip link set " + link + " down" : "tc qdisc add dev " + link + " root netem loss 100%";
  const std::string in = by_an_end ? "ip link set " + link + " up" : "tc qdisc del dev " + link + " root";
  CAPTURE(out);
  rails.move_until([] { return true; });
  REQUIRE(run(out));
  const Deadline limit = Deadline::in_ms(15'000);
  rails.move_until([&] { return rails.end->rails_up() == 1 && rails.peer->rails_up() == 1; });
  CHECK_FALSE(limit.passed());
  CHECK(rails.get() == 0);
  const std::uint64_t before = sent_over(interface);
  rails.move_until([] { return true; });
  CHECK(sent_over(interface) - before < 4096);
  REQUIRE(run(in));
  // What no port has heard of brings nothing back: that takes an event.
  if (!by_an_end) REQUIRE(run("ip link set " + link + " down && ip link set " + link + " up"));
  rails.move_until([&] { return is_joined(*rails.end, 2) && is_joined(*rails.peer, 2); });
  const std::uint64_t got[2] = {rails.got_by(0), rails.got_by(1)};
  CHECK(rails.get() == 0);
  CHECK(rails.got_by(0) - got[0] == 1'500'000);
  CHECK(rails.got_by(1) - got[1] == 1'500'000);
  const std::uint64_t again = sent_over(interface);
  for (int i = 0; i < 4; ++i) rails.move_until([] { return true; });
  CHECK(sent_over(interface) - again > Rails::kForth);
  CHECK(rails.end->failure() == nullptr);
}

TEST_CASE("a long get goes over both rails, and a short one over one", "[adapter]") {
  Rails rails;
  constexpr std::size_t kLong = 40'000'001, kShort = VerbsTransfers::kLeastPart;
  CHECK(rails.get(kLong) == 0);
  CHECK(rails.got_by(0) + rails.got_by(1) == kLong);
  CHECK(rails.got_by(0) > kLong / 4);
  CHECK(rails.got_by(1) > kLong / 4);
  const std::uint64_t first = rails.got_by(0), second = rails.got_by(1);
  CHECK(rails.get(kShort) == 0);
  CHECK((rails.got_by(0) == first) != (rails.got_by(1) == second));
  CHECK(rails.got_by(0) + rails.got_by(1) == kLong + kShort);
}

TEST_CASE("a get that loses a rail brings its bytes over the other", "[adapter]") {
  Rails rails;
  const std::string link =
      std::array{"roce1", "roce2"}[std::size_t(GENERATE(range(0, int(knob("RAIL_LINKS", 3)), 2)) / 2)];
  CAPTURE(link);
  constexpr std::size_t kBytes = 24'000'000;
  const std::size_t lost = link == "roce2" ? 1 : 0;
  // What goes over the rail does not come.
  CHECK(rails.get(kBytes, "tc qdisc add dev " + link + " root netem loss 100%", "ip link set " + link + " down") == 0);
  CHECK(rails.end->transfers().rails()[lost]->is_over());
  CHECK(rails.got_by(1 - lost) == kBytes);
  REQUIRE(run("tc qdisc del dev " + link + " root; ip link set " + link + " up"));
  rails.move_until([&] { return is_joined(*rails.end, 2) && is_joined(*rails.peer, 2); });
}

TEST_CASE("memory that its owner takes back is out of reach over every rail", "[adapter]") {
  Rails rails;
  constexpr std::size_t kBytes = 1'000'000;
  const auto from = in_region(kBytes), into = in_region(kBytes);
  std::shared_ptr<const void> kept;
  const RemoteAddress at = rails.give_out(from, kBytes, &kept);
  rails.other->take_back(at);
  for (const auto& each : rails.other->with_registrations(rails.other->ports()))
    CHECK(each.registrations->registered_bytes() == 0);
  rails.one->get({{1, -1}, at, into.get(), kBytes, 1});
  CHECK(rails.wait(1) == ECONNABORTED);
  CHECK(rails.end->transfers().is_over());
  rails.move_until([&] { return rails.peer->transfers().is_over(); });
}

// siw does not tell of addresses.
TEST_CASE("an address that goes away and comes back, perhaps at another place, brings its rail back",
          "[adapter][roce]") {
  Rails rails;
  rails.move_until([] { return true; });
  REQUIRE(run("ip addr del 10.77.1.2/24 dev roce3"));
  rails.move_until([&] { return rails.end->rails_up() == 1 && rails.peer->rails_up() == 1; });
  REQUIRE(run("ip addr add 10.77.1.9/24 dev roce3 && ip addr add 10.77.1.2/24 dev roce3"));
  rails.move_until([&] { return rails.end->rails_up() == 2 && rails.peer->rails_up() == 2; });
  REQUIRE(run("ip addr del 10.77.1.9/24 dev roce3; ip addr add 10.77.1.2/24 dev roce3; true"));
}

TEST_CASE("a lane ends with its last rail", "[adapter]") {
  Rails rails;
  REQUIRE(run("ip link set roce2 down"));
  rails.move_until([&] { return rails.end->rails_up() == 1 && rails.peer->rails_up() == 1; });
  REQUIRE(run("ip link set roce0 down"));
  const auto payload = payload_of(0, 1, 1000);
  rails.end->send(header_of(0, 1, 1000), payload.data());
  poll_until_failure(*rails.end);
  CHECK(rails.end->failure()->code() == ANELLO_ERR_PEER_LOST);
  CHECK_THAT(rails.end->failure()->text(),
             Catch::Contains("link") && Catch::Contains(named("rxe0 port 1, rxe2 port 1")));
  poll_until_failure(*rails.peer);
  REQUIRE(run("ip link set roce0 up; ip link set roce2 up"));
  ::usleep(500'000);
}
