// A peer may send ahead up to its credit. A rank refuses a frame beyond it before it takes memory for that frame.
#include "executor/rank_thread.h"
#include "executor/scripted_lane.h"
#include "support/catch.h"

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

namespace {

ScriptedFrame frame_of(FrameKind kind, std::uint64_t communicator, std::size_t bytes) {
  ScriptedFrame frame;
  frame.header.kind = static_cast<std::uint16_t>(kind);
  frame.header.communicator = Generations::id(std::uint32_t(communicator), 0);
  frame.header.bytes = static_cast<std::uint32_t>(bytes);
  frame.header.sequence = 7;  // of a call that this rank has not entered
  frame.header.flags = kind == FrameKind::eager ? std::uint16_t{ANELLO_BYTE} : std::uint16_t{0};
  frame.payload.resize(bytes);
  return frame;
}

// Rank 0 of two, which takes in rank 1's frames.
struct Listener {
  Listener()
      : jobs(2, transport::bit_of("shm")),
        me(jobs, 0, transport::bit_of("shm"),
           [this](const memory::Arena&, int) { return std::make_unique<ScriptedTransport>(script); }),
        waits(me.allreduce(data.data(), data.size(), "ring")) {}
  ~Listener() {
    me.context().abort(me.group(), Error(ANELLO_ERR_ABORTED, "over"));
    me.finish(waits);
  }
  void take_all() {
    while (!script->empty() && !me.group().error) me.context().test(*waits);
    me.context().test(*waits);
  }

  std::shared_ptr<Script> script = std::make_shared<Script>();
  std::vector<float> data = std::vector<float>(64);
  LocalJobs jobs;
  RankThread me;
  Operation* waits;
};

struct Case {
  FrameKind kind;
  std::size_t bytes, credit;
};
const Case kCases[] = {{FrameKind::step, 256 * 1024, kCredit},
                       {FrameKind::step, 0, kCredit},
                       {FrameKind::eager, 64 * 1024, kSmallCredit},
                       {FrameKind::eager, 1, kSmallCredit}};

}  // namespace

TEST_CASE(
    "a peer that sends more ahead than its credit fails the communicator, and one that keeps within it does not") {
  const Case each = GENERATE(from_range(std::begin(kCases), std::end(kCases)));
  CAPTURE(int(each.kind), each.bytes);
  Listener listener;
  const std::size_t most = each.credit / (each.bytes + kFrameCost);
  for (std::size_t i = 0; i < most; ++i) listener.script->push_back(frame_of(each.kind, 1, each.bytes));
  listener.take_all();
  CHECK(listener.me.group().error.text() == "");
  listener.script->push_back(frame_of(each.kind, 1, each.bytes));
  listener.take_all();
  CHECK(listener.me.group().error.code() == ANELLO_ERR_CORRUPT);
  CHECK_THAT(listener.me.group().error.text(),
             Catch::Contains("rank 1") && Catch::Contains("more ahead than it had credit for"));
}

TEST_CASE("the same holds for a communicator that is not made yet") {
  const Case each = GENERATE(from_range(std::begin(kCases), std::end(kCases)));
  CAPTURE(int(each.kind), each.bytes);
  constexpr std::uint64_t kNew = 99;
  Listener listener;
  const std::size_t most = each.credit / (each.bytes + kFrameCost);
  const std::size_t more = GENERATE(0, 1);
  for (std::size_t i = 0; i < most + more; ++i) listener.script->push_back(frame_of(each.kind, kNew, each.bytes));
  listener.take_all();
  CHECK(!listener.me.group().error);
  const auto made = listener.me.add_group(kNew, 2, -1, 0);
  CHECK(made->error.code() == (more == 0 ? ANELLO_OK : ANELLO_ERR_CORRUPT));
  listener.me.context().remove_group(*made);
}

TEST_CASE("a frame beyond the memory for future communicators fails its own communicator, and is not lost unseen") {
  Listener listener;
  constexpr std::size_t kBytes = 1024 * 1024;
  constexpr std::uint64_t kFirst = 1000;
  const std::size_t most = kLeastStrayPeers * (kCredit + kSmallCredit) / (kBytes + kFrameCost);
  for (std::size_t i = 0; i <= most; ++i) listener.script->push_back(frame_of(FrameKind::step, kFirst + i, kBytes));
  listener.take_all();
  const auto kept = listener.me.add_group(kFirst, 2, -1, 0), full = listener.me.add_group(kFirst + most, 2, -1, 0);
  CHECK(!kept->error);
  CHECK(full->error.code() == ANELLO_ERR_RESOURCE);
  listener.me.context().remove_group(*kept);
  listener.me.context().remove_group(*full);
}

TEST_CASE(
    "a peer that sends the address of a message, though it shares no memory with this rank, fails the communicator") {
  constexpr std::uint64_t kApart = 99;
  const std::size_t bytes = GENERATE(std::size_t{0}, kAddressBytes);
  CAPTURE(bytes);
  Listener listener;
  const auto apart = listener.me.add_group(kApart, 2, -1, 0);
  ScriptedFrame request = frame_of(FrameKind::rts, kApart, bytes);
  request.header.flags = ANELLO_BYTE;
  request.header.argument = 1024 * 1024;
  listener.script->push_back(request);
  listener.take_all();
  CHECK(apart->error.code() == (bytes == 0 ? ANELLO_OK : ANELLO_ERR_CORRUPT));
  if (bytes != 0) {
    CHECK_THAT(apart->error.text(), Catch::Contains("rank 1") && Catch::Contains("shares no memory"));
  }
  listener.me.context().remove_group(*apart);
}

TEST_CASE("a call that waits for a rank that has left gets the error that made it leave, though nobody else tells it") {
  struct Left {
    unsigned code, blamed;
    anello_result_t expected;
    int about;
  };
  const Left left =
      GENERATE(Left{ANELLO_ERR_MISMATCH, 0, ANELLO_ERR_MISMATCH, 1}, Left{ANELLO_ERR_ABORTED, 1, ANELLO_ERR_ABORTED, 0},
               Left{ANELLO_ERR_MISMATCH, 9, ANELLO_ERR_MISMATCH, 1},  // there is no such rank
               Left{ANELLO_OK, 0, ANELLO_ERR_PEER_LOST, 1}, Left{999, 0, ANELLO_ERR_PEER_LOST, 1});
  CAPTURE(left.code, left.blamed);
  Listener listener;
  ScriptedFrame leave = frame_of(FrameKind::leave, 1, 0);
  leave.header.flags = static_cast<std::uint16_t>(left.code);
  leave.header.tag = left.blamed;
  listener.script->push_back(leave);
  listener.me.context().wait(*listener.waits);
  REQUIRE(listener.waits->error.code() == left.expected);
  const Error& error = listener.me.group().error;
  CHECK(error.peer() == left.about);
  CHECK_THAT(error.text(),
             Catch::Contains(left.expected == ANELLO_ERR_PEER_LOST ? "without taking its part in it"
                                                                   : "which had failed there: ANELLO_ERR_"));
}
