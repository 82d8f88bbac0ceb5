#include "messaging/stray_frames.h"
#include "support/catch.h"

#include <vector>

namespace {

using anello::messaging::EarlyFrame;
using anello::messaging::EarlyFrames;
using anello::messaging::FrameKind;
using anello::messaging::FramePool;
using anello::messaging::kCredit;
using anello::messaging::kFrameCost;
using anello::messaging::kMaxUnexpected;
using anello::messaging::StrayFrames;
using anello::transport::FrameHeader;
using Verdict = StrayFrames::Verdict;

constexpr int kRanks = 2;

FrameHeader header(std::uint64_t communicator, FrameKind kind, std::size_t bytes, std::uint32_t sequence = 0) {
  FrameHeader made;
  made.communicator = communicator;
  made.kind = static_cast<std::uint16_t>(kind);
  made.bytes = static_cast<std::uint32_t>(bytes);
  made.sequence = sequence;
  return made;
}

// A frame arrives completely.
void receive(FramePool& pool, StrayFrames& strays, const FrameHeader& what, int source) {
  REQUIRE(strays.admit(what, source, kRanks) == Verdict::admitted);
  strays.keep(pool.take(what, source));
}

std::vector<std::uint32_t> sequences(FramePool& pool, EarlyFrames frames) {
  std::vector<std::uint32_t> found;
  frames.each([&](const EarlyFrame& each) { found.push_back(each.header.sequence); });
  pool.give_back_all(frames);
  return found;
}

}  // namespace

TEST_CASE("a new communicator takes its own frames in the order of arrival") {
  FramePool pool;
  StrayFrames strays(pool);
  receive(pool, strays, header(7, FrameKind::step, 10, 1), 0);
  receive(pool, strays, header(8, FrameKind::step, 10, 2), 0);
  receive(pool, strays, header(7, FrameKind::eager, 0, 3), 1);
  CHECK(sequences(pool, strays.take(7)) == std::vector<std::uint32_t>{1, 3});
  CHECK(sequences(pool, strays.take(7)).empty());
  CHECK(sequences(pool, strays.take(8)) == std::vector<std::uint32_t>{2});
}

TEST_CASE("a peer may send as much ahead as it has credit for, and no more") {
  FramePool pool;
  StrayFrames strays(pool);
  CHECK(strays.admit(header(7, FrameKind::step, kCredit - kFrameCost), 1, kRanks) == Verdict::admitted);
  CHECK(strays.admit(header(7, FrameKind::step, 0), 1, kRanks) == Verdict::beyond_credit);
  // Other peers and other communicators have credit of their own. Once a communicator exists, it counts itself.
  CHECK(strays.admit(header(7, FrameKind::step, 0), 0, kRanks) == Verdict::admitted);
  CHECK(strays.admit(header(8, FrameKind::step, 0), 1, kRanks) == Verdict::admitted);
  EarlyFrames none = strays.take(7);
  CHECK(none.empty());
  CHECK(strays.admit(header(7, FrameKind::step, 0), 1, kRanks) == Verdict::admitted);
}

TEST_CASE("notes cost no credit, but have no payload, and their number is bounded") {
  FramePool pool;
  StrayFrames strays(pool);
  CHECK(strays.admit(header(7, FrameKind::leave, 1), 1, kRanks) == Verdict::beyond_credit);
  for (std::size_t i = 0; i < kMaxUnexpected; ++i)
    REQUIRE(strays.admit(header(8, FrameKind::leave, 0), 1, kRanks) == Verdict::admitted);
  CHECK(strays.admit(header(8, FrameKind::leave, 0), 1, kRanks) == Verdict::beyond_credit);
}

TEST_CASE("all peers together have a bound, and forgotten frames make room") {
  FramePool pool;
  StrayFrames strays(pool);
  const std::size_t most = StrayFrames::most_bytes(kRanks);
  const std::size_t payload = kCredit - kFrameCost;
  std::uint64_t communicator = 0;
  for (std::size_t held = 0; held + kCredit <= most; held += kCredit)
    receive(pool, strays, header(++communicator, FrameKind::step, payload), 1);
  CHECK(strays.admit(header(1000, FrameKind::step, payload), 1, kRanks) == Verdict::too_many);
  strays.forget([](std::uint64_t id) { return id == 1; });
  CHECK(sequences(pool, strays.take(1)).empty());
  CHECK(strays.admit(header(1000, FrameKind::step, payload), 1, kRanks) == Verdict::admitted);
}

TEST_CASE("the pool reuses a frame that is given back") {
  FramePool pool;
  EarlyFrame* const first = pool.take(header(7, FrameKind::step, 100), 3);
  CHECK(first->payload.size() == 100);
  CHECK(first->source == 3);
  first->filled = 100;
  pool.give_back(first);
  EarlyFrame* const second = pool.take(header(8, FrameKind::step, 50), 4);
  CHECK(second == first);
  CHECK(second->filled == 0);
  CHECK(second->payload.size() == 50);
  pool.give_back(second);
}
