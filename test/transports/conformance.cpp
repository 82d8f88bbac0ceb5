#include "transports/conformance.h"

#include "base/clock.h"
#include "base/text.h"
#include "support/catch.h"
#include "support/knob.h"

#include <algorithm>
#include <thread>

namespace anello::testing {
namespace {

using transport::Endpoint;
using transport::FrameHeader;
using transport::kMaxFrameBytes;

// Sizes around a line, an element, an inlined payload, a read of a socket, and the largest frame.
const std::size_t kSizes[] = {1,
                              7,
                              15,
                              16,
                              17,
                              40,
                              63,
                              64,
                              65,
                              127,
                              0,
                              4095,
                              4096,
                              4097,
                              0,
                              16343,
                              16344,
                              16345,
                              65535,
                              65536,
                              100'001,
                              3,
                              kMaxFrameBytes - 1,
                              kMaxFrameBytes,
                              0,
                              24};

// Moves frame `sequence` of `bytes` from one end to the other. This thread drives both.
std::string move_frame(Endpoint& from, Collector& to, int rank, std::uint32_t sequence, std::size_t bytes) {
  const std::vector<std::byte> payload = payload_of(rank, sequence, bytes);
  const Deadline deadline = Deadline::in_ms(20'000);
  bool sent = false, arrived = false;
  while (!sent || !arrived) {
    if (!sent) sent = from.send(header_of(rank, sequence, bytes), payload.data());
    if (!arrived) arrived = to.poll();
    if (deadline.passed()) return text("frame ", sequence, " of ", bytes, " bytes: sent ", sent, ", arrived ", arrived);
    if (from.failure() != nullptr) return from.failure()->text();
  }
  return to.complaint + difference(to.header(), to.payload(), rank, sequence, bytes);
}

// Sends frames of one size from rank 0 until the lane refuses one. Keeps the refused frame's number and payload, which
// the endpoint may use until it has taken all of it.
struct Fill {
  Fill(Endpoint& end, std::size_t frame_bytes) : from(end), bytes(frame_bytes) {
    do {
      payload = payload_of(0, ++sequence, bytes);
    } while (sequence < 2'000'000 && send());
    refused = sequence < 2'000'000;
  }
  bool send() { return from.send(header_of(0, sequence, bytes), payload.data()); }

  Endpoint& from;
  std::size_t bytes;
  std::uint32_t sequence = ~0u;
  std::vector<std::byte> payload;
  bool refused = false;
};

// Drives both ends until `from` holds nothing and `to` has taken frames first..last, all of `bytes`.
std::string drain(Endpoint& from, Collector& to, std::uint32_t first, std::uint32_t last, std::size_t bytes) {
  const Deadline deadline = Deadline::in_ms(20'000);
  for (std::uint32_t sequence = first; sequence <= last;) {
    from.flush();
    if (to.poll()) {
      const std::string wrong = difference(to.header(), to.payload(), 0, sequence, bytes) + to.complaint;
      if (!wrong.empty()) return wrong;
      ++sequence;
    }
    if (deadline.passed()) return text("frame ", sequence, " never arrived");
  }
  return from.flush() ? "" : "the sender still holds something";
}

void order_and_sizes(Lane lane) {
  const bool by_view = GENERATE(false, true);
  const std::size_t piece = GENERATE(16, 48, 4096, kMaxFrameBytes);
  for (int rank : {0, 1}) {
    Collector to(*lane.end[1 - rank]);
    to.by_view = by_view;
    to.piece = piece;
    std::uint32_t sequence = 0;
    for (const std::size_t bytes : kSizes) {
      INFO("from " << rank << ", " << bytes << " bytes, by view " << by_view << ", piece " << piece);
      REQUIRE(move_frame(*lane.end[rank], to, rank, sequence++, bytes) == "");
    }
  }
}

void incoming_stays(Lane lane) {
  const auto payload = payload_of(0, 5, 100);
  REQUIRE(lane.end[1]->incoming() == nullptr);
  REQUIRE(lane.end[1]->remaining() == 0);
  REQUIRE(lane.end[0]->send(header_of(0, 5, 100), payload.data()));
  REQUIRE(lane.end[0]->send(header_of(0, 6, 0), nullptr));
  REQUIRE(lane.end[0]->send(header_of(0, 7, 0), nullptr));
  const Deadline deadline = Deadline::in_ms(20'000);
  const FrameHeader* header = nullptr;
  while (header == nullptr && !deadline.passed()) header = lane.end[1]->incoming();
  REQUIRE(header != nullptr);
  CHECK(lane.end[1]->incoming() == header);
  CHECK(header->sequence == 5);
  std::byte got[100];
  while (lane.end[1]->remaining() > 50 && !deadline.passed()) lane.end[1]->receive(got, lane.end[1]->remaining() - 50);
  CHECK(lane.end[1]->incoming() == header);
  CHECK(header->sequence == 5);
  std::size_t have = 50;
  while (have < 100 && !deadline.passed()) have += lane.end[1]->receive(got + have, 100);
  CHECK(std::equal(payload.begin(), payload.end(), got));
  header = nullptr;
  while (header == nullptr && !deadline.passed()) header = lane.end[1]->incoming();
  REQUIRE(header != nullptr);
  CHECK(header->sequence == 6);
  // An empty frame has no bytes to consume, so the next call moves on.
  header = nullptr;
  while (header == nullptr && !deadline.passed()) header = lane.end[1]->incoming();
  REQUIRE(header != nullptr);
  CHECK(header->sequence == 7);
}

void a_full_lane(Lane lane) {
  const std::size_t bytes = GENERATE(0, 64, 4096, 100'000);
  Fill fill(*lane.end[0], bytes);
  INFO("frame " << fill.sequence << " of " << bytes << " bytes was refused");
  REQUIRE(fill.refused);
  if (bytes <= 64) REQUIRE(fill.sequence >= 8);  // the lane takes some without the receiver's help
  Collector to(*lane.end[1]);
  const Deadline deadline = Deadline::in_ms(20'000);
  bool sent = false;
  std::uint32_t sequence = 0;
  while (sequence <= fill.sequence && !deadline.passed()) {
    if (!sent) sent = fill.send();
    if (!to.poll()) continue;
    REQUIRE(difference(to.header(), to.payload(), 0, sequence, bytes) == "");
    ++sequence;
  }
  REQUIRE(sequence == fill.sequence + 1);
  while (!sent && !deadline.passed()) sent = fill.send();
  CHECK(sent);
  CHECK_FALSE(lane.end[0]->mid_frame());
  CHECK(lane.end[1]->incoming() == nullptr);
}

void given_up_half_way(Lane lane) {
  const std::size_t bytes = 200'001;
  Collector to(*lane.end[1]);
  std::uint32_t first = 0;
  Fill fill(*lane.end[0], bytes);
  REQUIRE(fill.refused);
  // If the frame is the first, the receiver is in the middle of it, too. A frame must have begun.
  const Deadline deadline = Deadline::in_ms(20'000);
  if (lane.end[1]->incoming() != nullptr) {
    to.piece = 1000;
    to.by_view = true;
    if (fill.sequence > 0 && to.poll()) ++first;
  }
  bool sent = false;
  while (!sent && !lane.end[0]->mid_frame() && !deadline.passed()) {
    sent = fill.send();
    if (!sent && !lane.end[0]->mid_frame() && to.poll()) ++first;
  }
  REQUIRE(lane.end[0]->mid_frame());
  lane.end[0]->detach();
  std::fill(fill.payload.begin(), fill.payload.end(), std::byte{0xee});
  CHECK_FALSE(lane.end[0]->mid_frame());
  CHECK(drain(*lane.end[0], to, first, fill.sequence, bytes) == "");
  CHECK(move_frame(*lane.end[0], to, 0, 77, 33) == "");
  lane.end[0]->detach();  // does nothing between frames
  CHECK(lane.end[0]->flush());
  CHECK(move_frame(*lane.end[0], to, 0, 78, kMaxFrameBytes) == "");
}

void both_directions(Lane lane) {
  Collector to[2] = {Collector(*lane.end[0]), Collector(*lane.end[1])};
  to[0].by_view = true;
  std::uint32_t sent[2] = {0, 0}, received[2] = {0, 0};
  const std::uint32_t total = 12;
  std::vector<std::byte> payload[2][total];
  for (int rank : {0, 1}) {
    for (std::uint32_t n = 0; n < total; ++n) payload[rank][n] = payload_of(rank, n, kMaxFrameBytes - n);
  }
  const Deadline deadline = Deadline::in_ms(20'000);
  while ((received[0] < total || received[1] < total) && !deadline.passed()) {
    for (int rank : {0, 1}) {
      if (sent[rank] < total) {
        const auto& now = payload[rank][sent[rank]];
        if (lane.end[rank]->send(header_of(rank, sent[rank], now.size()), now.data())) ++sent[rank];
      }
      to[rank].piece = 20'000;
      if (!to[rank].poll()) continue;
      const std::uint32_t n = received[rank]++;
      REQUIRE(difference(to[rank].header(), to[rank].payload(), 1 - rank, n, kMaxFrameBytes - n) == "");
    }
  }
  CHECK(received[0] == total);
  CHECK(received[1] == total);
}

void a_closed_lane(Lane lane) {
  for (std::uint32_t n = 0; n < 5; ++n) {
    const auto payload = payload_of(0, n, n * 150);
    REQUIRE(lane.end[0]->send(header_of(0, n, payload.size()), payload.data()));
  }
  lane.end[0].reset();
  Collector to(*lane.end[1]);
  const Deadline deadline = Deadline::in_ms(20'000);
  for (std::uint32_t n = 0; n < 5 && !deadline.passed();) {
    const bool complete = to.poll();
    REQUIRE(lane.end[1]->failure() == nullptr);
    if (complete) REQUIRE(difference(to.header(), to.payload(), 0, n++, to.payload().size()) == "");
  }
  while (lane.end[1]->failure() == nullptr && !deadline.passed()) REQUIRE_FALSE(to.poll());
  REQUIRE(lane.end[1]->failure() != nullptr);
  CHECK(lane.end[1]->failure()->code() == ANELLO_ERR_PEER_LOST);
  CHECK(lane.end[1]->failure()->peer() == 0);
  CHECK(lane.end[1]->incoming() == nullptr);
  CHECK(lane.end[1]->view().empty());
  CHECK_FALSE(lane.end[1]->send(header_of(1, 0, 0), nullptr));
  lane.end[1]->detach();
}

// The sender goes away in the middle of a frame: the receiver gets all whole frames, and then the failure.
void closed_half_way(Lane lane) {
  const std::size_t bytes = 200'000;
  const Fill fill(*lane.end[0], bytes);
  REQUIRE(fill.refused);
  lane.end[0].reset();
  Collector to(*lane.end[1]);
  const Deadline deadline = Deadline::in_ms(20'000);
  std::uint32_t received = 0;
  while (lane.end[1]->failure() == nullptr && !deadline.passed()) {
    if (!to.poll()) continue;
    REQUIRE(difference(to.header(), to.payload(), 0, received, bytes) == "");
    ++received;
  }
  REQUIRE(lane.end[1]->failure() != nullptr);
  CHECK(lane.end[1]->failure()->code() == ANELLO_ERR_PEER_LOST);
  CHECK(received >= fill.sequence);
}

void no_room_and_gone(Lane lane) {
  Fill fill(*lane.end[0], 200'000);
  REQUIRE(fill.refused);
  lane.end[1].reset();
  const Deadline deadline = Deadline::in_ms(20'000);
  while (lane.end[0]->failure() == nullptr && !deadline.passed()) {
    fill.send();
    lane.end[0]->incoming();
  }
  REQUIRE(lane.end[0]->failure() != nullptr);
  CHECK(lane.end[0]->failure()->code() == ANELLO_ERR_PEER_LOST);
}

// One side always sleeps when it cannot go on; the other never does, and pauses now and then.
std::string sleepy(Lane& lane, bool sleeping_receiver, std::size_t bytes, std::uint32_t frames) {
  std::string wrong[2];
  const auto sender = [&] {
    for (std::uint32_t n = 0; n < frames && wrong[0].empty(); ++n) {
      const auto payload = payload_of(0, n, bytes);
      const Deadline deadline = Deadline::in_ms(20'000);
      while (!lane.end[0]->send(header_of(0, n, bytes), payload.data()) && wrong[0].empty()) {
        if (!sleeping_receiver && !sleep_on(*lane.end[0], *lane.arena, 0)) wrong[0] = "the sender was not woken";
        if (deadline.passed()) wrong[0] = "the receiver took nothing";
      }
      // The pause lets the receiver fall asleep in most rounds; the test is valid even if it does not.
      if (sleeping_receiver && n % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  };
  const auto receiver = [&] {
    Collector to(*lane.end[1]);
    for (std::uint32_t n = 0; n < frames && wrong[1].empty(); ++n) {
      const Deadline deadline = Deadline::in_ms(20'000);
      while (!to.poll() && wrong[1].empty()) {
        if (sleeping_receiver && !sleep_on(*lane.end[1], *lane.arena, 1)) wrong[1] = "the receiver was not woken";
        if (deadline.passed()) wrong[1] = "the sender sent nothing";
      }
      if (wrong[1].empty()) wrong[1] = difference(to.header(), to.payload(), 0, n, bytes);
      if (!sleeping_receiver && n % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  };
  std::thread other(receiver);
  sender();
  other.join();
  return wrong[0] + wrong[1];
}

void news_before_sleep(Lane lane) {
  lane.end[0]->before_sleep();
  const auto payload = payload_of(0, 1, 1000);
  REQUIRE(lane.end[0]->send(header_of(0, 1, 1000), payload.data()));
  REQUIRE(lane.end[0]->send(header_of(0, 2, 1000), payload.data()));
  REQUIRE(sleep_on(*lane.end[1], *lane.arena, 1));
  const Deadline deadline = Deadline::in_ms(20'000);
  while (lane.end[1]->incoming() == nullptr && !deadline.passed()) {
  }
  std::byte got[1000];
  std::size_t have = 0;
  while (have < 1000 && !deadline.passed()) have += lane.end[1]->receive(got + have, 1000 - have);
  // The second frame may be in the endpoint's own buffer already, and no descriptor announces it.
  const Deadline soon = Deadline::in_ms(5'000);
  REQUIRE(sleep_on(*lane.end[1], *lane.arena, 1));
  CHECK_FALSE(soon.passed());
  while (lane.end[1]->incoming() == nullptr && !deadline.passed()) {
  }
  REQUIRE(lane.end[1]->incoming() != nullptr);
  CHECK(lane.end[1]->incoming()->sequence == 2);
}

}  // namespace

void keeps_contract(const LaneMaker& make) {
  SECTION("frames of all sizes arrive in order, by copy and by view, in all pieces") { order_and_sizes(make()); }
  SECTION("a frame stays the incoming one until all of it has been consumed") { incoming_stays(make()); }
  SECTION("a full lane refuses a frame, and takes it once there is room") { a_full_lane(make()); }
  SECTION("a frame that is detached half-way arrives with its true payload") { given_up_half_way(make()); }
  SECTION("large frames go both ways at once") { both_directions(make()); }
  SECTION("a closed lane delivers everything before it fails") { a_closed_lane(make()); }
  SECTION("a lane closed in the middle of a frame fails, whole frames first") { closed_half_way(make()); }
  SECTION("a sender without room learns that its peer has gone") { no_room_and_gone(make()); }
  SECTION("arrived bytes keep a rank from sleeping") { news_before_sleep(make()); }
  SECTION("a sleeping receiver is woken") {
    Lane lane = make();
    CHECK(sleepy(lane, true, 40, 60) == "");
    CHECK(sleepy(lane, true, 100'000, 20) == "");
  }
  SECTION("a sleeping sender is woken when there is room") {
    Lane lane = make();
    CHECK(sleepy(lane, false, 256 * 1024, 60) == "");
    CHECK(sleepy(lane, false, 24, 4000) == "");
  }
  SECTION("two ranks that send, copy, view, detach and sleep at random lose nothing") {
    Lane lane = make();
    const std::uint64_t seed = GENERATE(1, 2, 3);
    INFO("seed " << seed);
    CHECK(soak(lane, seed, int(knob("SOAK_FRAMES", 300))) == "");
  }
}

}  // namespace anello::testing
