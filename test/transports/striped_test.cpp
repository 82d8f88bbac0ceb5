#include "base/clock.h"
#include "support/catch.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/striped/endpoint.h"
#include "transports/tcp/transport.h"

#include <poll.h>
#include <sys/socket.h>

using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

namespace {

struct Sockets {
  std::vector<UniqueFd> here, there;
};

// room: of each socket's buffers; 0: the system's.
Sockets connected_rails(std::size_t rails, int room = 0) {
  Sockets sockets;
  for (std::size_t rail = 0; rail < rails; ++rail) {
    auto [here, there] = connected(false);
    for (const int fd : {here.get(), there.get()}) {
      if (room == 0) continue;
      REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
      REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
    }
    sockets.here.push_back(std::move(here));
    sockets.there.push_back(std::move(there));
  }
  return sockets;
}

Lane over(Sockets sockets, const char* checksum = "auto") {
  Lane lane;
  lane.end[0] = make_tcp("auto", 1, checksum)->open(1, -1, std::move(sockets.here));
  lane.end[1] = make_tcp("auto", 4, checksum)->open(0, -1, std::move(sockets.there));
  return lane;
}

bool is_readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

// Frames of these sizes go from one end to the other while both are polled. "" if all come right.
std::string pass(Lane& lane, std::initializer_list<std::size_t> sizes) {
  const Deadline deadline = Deadline::in_ms(20'000);
  Collector collector(*lane.end[1]);
  std::uint32_t sequence = 0;
  for (const std::size_t bytes : sizes) {
    const FrameHeader header = header_of(0, sequence, bytes);
    const std::vector<std::byte> payload = payload_of(0, sequence, bytes);
    for (bool sent = false, came = false; !sent || !came;) {
      if (deadline.passed()) return "not in time";
      sent = sent || lane.end[0]->send(header, payload.data());
      came = came || collector.poll();
    }
    const std::string error = difference(collector.header(), collector.payload(), 0, sequence, bytes);
    if (!error.empty()) return error;
    ++sequence;
  }
  return {};
}

}  // namespace

TEST_CASE("a lane over two rails keeps the contract") {
  keeps_contract([] { return over(connected_rails(2)); });
}

TEST_CASE("a lane over three rails with sealed payloads keeps the contract") {
  keeps_contract([] { return over(connected_rails(3), "all"); });
}

TEST_CASE("rails with little room lose nothing") {
  const std::size_t rails = GENERATE(2, 5, 8);
  Lane lane = over(connected_rails(rails, 64 * 1024));
  CHECK(soak(lane, rails, 60) == "");
}

TEST_CASE("frames around the sizes of pieces come whole") {
  Lane lane = over(connected_rails(GENERATE(2, 3)));
  CHECK(pass(lane, {0, 1, kPieceBytes - 1, kPieceBytes, kPieceBytes + 1, 0, 2 * kPieceBytes - 1, 2 * kPieceBytes,
                    2 * kPieceBytes + 1, kPieceBytes, 0, kMaxFrameBytes - 1, kMaxFrameBytes, 1}) == "");
}

TEST_CASE("a rail without room gets no more than its piece, and the others carry the rest") {
  Sockets sockets = connected_rails(3, 256 * 1024);
  const int little = 4 * 1024;
  REQUIRE(::setsockopt(sockets.here[2].get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
  REQUIRE(::setsockopt(sockets.there[2].get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
  const int watched[] = {sockets.there[0].get(), sockets.there[1].get(), sockets.there[2].get()};
  Lane lane = over(std::move(sockets));
  const std::vector<std::byte> payload = payload_of(0, 0, kMaxFrameBytes);
  for (int i = 0; i < 100; ++i) lane.end[0]->send(header_of(0, 0, kMaxFrameBytes), payload.data());
  std::size_t waiting[3] = {};
  for (int rail = 0; rail < 3; ++rail) {
    std::vector<std::byte> peeked(kMaxFrameBytes);
    const ssize_t bytes = ::recv(watched[rail], peeked.data(), peeked.size(), MSG_PEEK | MSG_DONTWAIT);
    waiting[rail] = bytes > 0 ? std::size_t(bytes) : 0;
  }
  CAPTURE(waiting[0], waiting[1], waiting[2]);
  CHECK(waiting[0] > kPieceBytes);
  CHECK(waiting[1] > kPieceBytes);
  CHECK(waiting[2] < kPieceBytes);
}

TEST_CASE("a receiver that waits for one rail is not woken by the others") {
  Sockets sockets = connected_rails(2);
  // Rail 0 of the receiver is another connection, on which nothing comes yet.
  auto [quiet, its_end] = connected(false);
  sockets.there[0] = std::move(its_end);
  Lane lane = over(std::move(sockets));
  const std::vector<std::byte> payload = payload_of(0, 0, kMaxFrameBytes);
  for (int i = 0; i < 100; ++i) lane.end[0]->send(header_of(0, 0, kMaxFrameBytes), payload.data());
  CHECK(lane.end[1]->incoming() == nullptr);
  while (lane.end[1]->before_sleep()) {
  }
  CHECK_FALSE(is_readable(lane.end[1]->descriptor()));
}

TEST_CASE("the end of a rail is the end of the lane, which names the rail") {
  Sockets sockets = connected_rails(2);
  const std::size_t broken = GENERATE(0, 1);
  UniqueFd& end = sockets.here[broken];
  const linger reset_at_once{1, 0};
  if (GENERATE(false, true)) {
    REQUIRE(::setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &reset_at_once, sizeof reset_at_once) == 0);
  }
  Lane lane;
  lane.end[1] = make_tcp("auto")->open(0, -1, std::move(sockets.there));
  end.reset();
  // Such an end may also be found before a sleep, which must not last.
  const bool asleep = GENERATE(false, true);
  const Deadline deadline = Deadline::in_ms(20'000);
  const std::vector<std::byte> payload = payload_of(1, 0, kMaxFrameBytes);
  while (lane.end[1]->failure() == nullptr && !deadline.passed()) {
    if (asleep) {
      lane.end[1]->before_sleep();
    } else {
      lane.end[1]->incoming();
      lane.end[1]->send(header_of(1, 0, kMaxFrameBytes), payload.data());
    }
  }
  REQUIRE(lane.end[1]->failure() != nullptr);
  CHECK(lane.end[1]->failure()->code() == ANELLO_ERR_PEER_LOST);
  CHECK_THAT(lane.end[1]->failure()->text(),
             Catch::Contains("rank 0 is lost") &&
                 Catch::Contains("rail " + std::to_string(broken + 1) + " of 2, 127.0.0.1 to 127.0.0.1"));
}

TEST_CASE("what came over all rails before one ended is delivered first") {
  Sockets sockets = connected_rails(3);
  Lane lane;
  lane.end[0] = make_tcp("auto")->open(1, -1, std::move(sockets.here));
  lane.end[1] = make_tcp("auto")->open(0, -1, std::move(sockets.there));
  const std::size_t bytes = GENERATE(std::size_t{100}, kPieceBytes, 5 * kPieceBytes + 100);
  const std::vector<std::byte> payload = payload_of(0, 7, bytes);
  const Deadline deadline = Deadline::in_ms(20'000);
  while (!lane.end[0]->send(header_of(0, 7, bytes), payload.data())) REQUIRE_FALSE(deadline.passed());
  lane.end[0].reset();
  Collector collector(*lane.end[1]);
  collector.piece = GENERATE(4096, kMaxFrameBytes);
  lane.end[1]->before_sleep();
  while (!collector.poll()) {
    REQUIRE(lane.end[1]->failure() == nullptr);
    REQUIRE_FALSE(deadline.passed());
  }
  CHECK(difference(collector.header(), collector.payload(), 0, 7, bytes) == "");
  while (lane.end[1]->failure() == nullptr) {
    lane.end[1]->incoming();
    REQUIRE_FALSE(deadline.passed());
  }
}

TEST_CASE("pieces that do not fit together are corrupt") {
  Sockets sockets = connected_rails(2);
  // The sender's rails are in another order than the receiver's.
  std::swap(sockets.here[0], sockets.here[1]);
  Lane lane = over(std::move(sockets));
  const std::vector<std::byte> payload = payload_of(0, 0, kMaxFrameBytes);
  const Deadline deadline = Deadline::in_ms(20'000);
  while (lane.end[1]->failure() == nullptr && !deadline.passed()) {
    lane.end[0]->send(header_of(0, 0, kMaxFrameBytes), payload.data());
    lane.end[1]->incoming();
  }
  REQUIRE(lane.end[1]->failure() != nullptr);
  CHECK(lane.end[1]->failure()->code() == ANELLO_ERR_CORRUPT);
}
