#include "base/clock.h"
#include "support/catch.h"
#include "support/congestion.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/tcp/transport.h"
#include "transports/tcp/wire.h"

#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

using namespace anello;
using namespace anello::testing;
using namespace anello::memory;
using namespace anello::transport;

namespace {

Lane over(std::pair<UniqueFd, UniqueFd> sockets, const char* checksum = "auto") {
  Lane lane;
  lane.end[0] = make_tcp("auto", 1, checksum)->open(1, -1, std::move(sockets.first));
  lane.end[1] = make_tcp("auto", 4, checksum)->open(0, -1, std::move(sockets.second));  // stages half as much at a time
  return lane;
}

// The header as it goes over the socket.
WireHeader on_the_wire(const FrameHeader& header, bool sealed = false) {
  WireHeader wire{header, sealed ? 1u : 0u, 0};
  wire.checksum = wire.right_checksum();
  return wire;
}

// One end is an endpoint, the other a bare socket that may send anything.
struct Stranger {
  Stranger() {
    auto sockets = connected(false);
    socket = std::move(sockets.first);
    end = make_tcp("auto")->open(0, -1, std::move(sockets.second));
  }
  void say(const void* bytes, std::size_t count) {
    REQUIRE(::send(socket.get(), bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count));
  }
  UniqueFd socket;
  std::unique_ptr<Endpoint> end;
};

void poll_until_failure(Endpoint& end) {
  const Deadline deadline = Deadline::in_ms(20'000);
  while (end.failure() == nullptr && !deadline.passed()) end.incoming();
  REQUIRE(end.failure() != nullptr);
}

}  // namespace

TEST_CASE("tcp keeps the contract of a lane over IPv4") {
  keeps_contract([] { return over(connected(false)); });
}

TEST_CASE("tcp keeps the contract of a lane whose payloads are sealed") {
  keeps_contract([] { return over(connected(false), "all"); });
}

TEST_CASE("tcp ends with different checksum settings understand each other") {
  const char* here = GENERATE("off", "headers", "all");
  const char* there = GENERATE("off", "headers", "all");
  CAPTURE(here, there);
  auto sockets = connected(false);
  Lane lane;
  lane.end[0] = make_tcp("auto", 1, here)->open(1, -1, std::move(sockets.first));
  lane.end[1] = make_tcp("auto", 1, there)->open(0, -1, std::move(sockets.second));
  CHECK(soak(lane, 7, 60) == "");
}

TEST_CASE("tcp keeps the contract of a lane over IPv6") {
  if (!has_ipv6()) {
    WARN("SKIPPED: this machine has no IPv6 loopback");
    return;
  }
  keeps_contract([] { return over(connected(true)); });
}

TEST_CASE("tcp loses nothing if every large frame is written and read in many parts") {
  const char* checksum = GENERATE("headers", "all");
  auto sockets = connected(false);
  const int small = 64 * 1024;  // less than a frame and, doubled by the kernel, more than a segment
  for (const int fd : {sockets.first.get(), sockets.second.get()}) {
    REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
  }
  Lane lane = over(std::move(sockets), checksum);
  CHECK(soak(lane, 5, 100) == "");
}

TEST_CASE("a stream that announces more than a frame can hold is corrupt") {
  Stranger stranger;
  FrameHeader header;
  header.bytes = static_cast<std::uint32_t>(GENERATE(kMaxFrameBytes + 1, std::size_t{0xffffffff}));
  const WireHeader wire = on_the_wire(header);
  stranger.say(&wire, sizeof wire);
  poll_until_failure(*stranger.end);
  CHECK(stranger.end->failure()->code() == ANELLO_ERR_CORRUPT);
  CHECK(stranger.end->incoming() == nullptr);
  CHECK(stranger.end->view().empty());
}

TEST_CASE("every bit of a sealed frame that changes on the way is found, and the frame does not become whole") {
  constexpr std::size_t kBytes = 40;
  const WireHeader head = on_the_wire(header_of(0, 9, kBytes), true);
  const auto payload = payload_of(0, 9, kBytes);
  const std::uint32_t seal = crc32c(head.checksum, payload.data(), kBytes);
  std::vector<std::byte> frame(sizeof head + kBytes + sizeof seal);
  std::memcpy(frame.data(), &head, sizeof head);
  std::memcpy(frame.data() + sizeof head, payload.data(), kBytes);
  std::memcpy(frame.data() + sizeof head + kBytes, &seal, sizeof seal);
  const bool by_view = GENERATE(true, false);
  for (std::size_t bit = 0; bit <= 8 * frame.size(); ++bit) {  // the last round changes no bit
    CAPTURE(bit);
    std::vector<std::byte> changed = frame;
    const bool any = bit < 8 * frame.size();
    if (any) changed[bit / 8] ^= std::byte(1 << bit % 8);
    Stranger stranger;
    stranger.say(changed.data(), changed.size());
    Collector collector(*stranger.end);
    collector.by_view = by_view;
    bool whole = false;
    const Deadline deadline = Deadline::in_ms(20'000);
    while (!whole && stranger.end->failure() == nullptr && !deadline.passed()) whole = collector.poll();
    REQUIRE(whole == !any);
    if (!any) continue;
    REQUIRE(stranger.end->failure() != nullptr);
    CHECK(stranger.end->failure()->code() == ANELLO_ERR_CORRUPT);
    CHECK_THAT(stranger.end->failure()->text(),
               Catch::Contains("rank 0") && Catch::Contains("changed on the way") &&
                   Catch::Contains(bit < 8 * sizeof head ? "at byte 0 " : "at byte 48 "));
  }
}

TEST_CASE("a header that arrives byte by byte is whole when its last byte has arrived") {
  Stranger stranger;
  const WireHeader header = on_the_wire(header_of(0, 9, 3));
  const auto payload = payload_of(0, 9, 3);
  for (std::size_t n = 0; n < sizeof header; ++n) {
    CHECK(stranger.end->incoming() == nullptr);
    stranger.say(reinterpret_cast<const std::byte*>(&header) + n, 1);
  }
  Collector collector(*stranger.end);
  collector.by_view = GENERATE(true, false);
  const Deadline deadline = Deadline::in_ms(20'000);
  while (stranger.end->incoming() == nullptr && !deadline.passed()) {
  }
  for (std::size_t n = 0; n < 3; ++n) {
    CHECK_FALSE(collector.poll());
    stranger.say(&payload[n], 1);
  }
  while (!collector.poll()) REQUIRE_FALSE(deadline.passed());
  CHECK(difference(collector.header(), collector.payload(), 0, 9, 3) == "");
}

TEST_CASE("a stream that ends inside a header or a payload is a lost peer") {
  Stranger stranger;
  const WireHeader header = on_the_wire(header_of(0, 0, 100));
  const bool inside_header = GENERATE(true, false);
  stranger.say(&header, inside_header ? 47 : sizeof header);
  stranger.socket.reset();
  const Deadline deadline = Deadline::in_ms(20'000);
  while (stranger.end->failure() == nullptr && !deadline.passed()) {
    if (stranger.end->incoming() != nullptr) stranger.end->view();
  }
  REQUIRE(stranger.end->failure() != nullptr);
  CHECK(stranger.end->failure()->code() == ANELLO_ERR_PEER_LOST);
}

TEST_CASE("frames that a peer sent before it reset the connection are delivered before the failure") {
  Stranger stranger;
  const WireHeader header = on_the_wire(header_of(0, 4, 50));
  const auto payload = payload_of(0, 4, 50);
  stranger.say(&header, sizeof header);
  stranger.say(payload.data(), payload.size());
  const linger reset_at_once{1, 0};
  REQUIRE(::setsockopt(stranger.socket.get(), SOL_SOCKET, SO_LINGER, &reset_at_once, sizeof reset_at_once) == 0);
  stranger.socket.reset();
  // The sending half finds out first that the connection is broken.
  for (int i = 0; i < 10; ++i) CHECK_FALSE(stranger.end->send(header_of(1, 0, 0), nullptr));
  CHECK(stranger.end->failure() == nullptr);
  Collector collector(*stranger.end);
  const Deadline deadline = Deadline::in_ms(20'000);
  while (!collector.poll()) REQUIRE_FALSE(deadline.passed());
  CHECK(difference(collector.header(), collector.payload(), 0, 4, 50) == "");
  CHECK_FALSE(stranger.end->send(header_of(1, 0, 0), nullptr));
  poll_until_failure(*stranger.end);
  CHECK(stranger.end->failure()->code() == ANELLO_ERR_PEER_LOST);
}

TEST_CASE("a connection within the host uses reno if that is allowed, and the system's algorithm on request") {
  const bool ipv6 = has_ipv6() && GENERATE(false, true);
  const std::string system = congestion_of(connected(ipv6).first.get());
  auto sockets = connected(ipv6, "reno");
  const int fd = sockets.first.get();
  const std::string before = congestion_of(fd);  // the system's if reno is not allowed
  SECTION("auto") {
    const auto end = make_tcp("auto")->open(1, -1, std::move(sockets.first));
    CHECK(congestion_of(fd) == before);
  }
  SECTION("the system's") {
    const auto end = make_tcp("")->open(1, -1, std::move(sockets.first));
    CHECK(congestion_of(fd) == system);
  }
  SECTION("an unknown name is an error that says where to look") {
    CHECK_THROWS_WITH(make_tcp("nagle-rides-again")->open(1, -1, std::move(sockets.first)),
                      Catch::Contains("ANELLO_TCP_CONGESTION") && Catch::Contains("tcp_allowed_congestion_control"));
  }
}

TEST_CASE("tcp needs a connection") {
  CHECK(make_tcp("auto")->needs_connection());
  CHECK_THROWS_AS(make_tcp("auto")->open(1, -1, {}), Error);
}

TEST_CASE("tcp is usable on this machine") { CHECK(tcp_why_not() == ""); }
