#include "messaging/credit.h"
#include "support/catch.h"

using namespace anello::messaging;

TEST_CASE("spent credit comes back once the peer has used the bytes") {
  Credits mine, peers;
  mine.steps.spend(1000);
  mine.eager.spend(8);
  CHECK(mine.steps.left() == kCredit - 1000 - kFrameCost);
  CHECK(mine.eager.left() == kSmallCredit - 8 - kFrameCost);
  peers.steps.consumed(1000);
  peers.eager.consumed(8);
  CHECK(mine.take_back(peers.give_back()));
  CHECK(mine.steps.left() == kCredit);
  CHECK(mine.eager.left() == kSmallCredit);
  CHECK(peers.owes() == 0);
}

TEST_CASE("a rank takes back no credit if the peer returns more than it had") {
  Credits mine;
  mine.steps.spend(1000);
  const std::uint64_t more_of_steps = 1000 + kFrameCost + 1;
  const std::uint64_t some_of_eager = std::uint64_t{1} << 32;
  CHECK_FALSE(mine.take_back(more_of_steps));
  CHECK_FALSE(mine.take_back(500 | some_of_eager));
  CHECK(mine.steps.left() == kCredit - 1000 - kFrameCost);
  CHECK(mine.take_back(500));
  CHECK(mine.steps.left() == kCredit - 500 - kFrameCost);
}

TEST_CASE("kept and owed bytes together stay within a peer's credit") {
  Credit credit(1000 + 2 * kFrameCost);
  CHECK(credit.keep(600));
  CHECK_FALSE(credit.keep(401));
  CHECK(credit.keep(400));
  CHECK_FALSE(credit.keep(0));
  credit.no_longer_keeps(600);
  credit.consumed(600);
  CHECK_FALSE(credit.keep(0));
  credit.repaid();
  CHECK(credit.keep(600));
}

TEST_CASE("a small owed amount waits for a frame that goes the other way") {
  Credits credits;
  credits.steps.consumed(kHeldBack - kFrameCost);
  CHECK_FALSE(credits.owes_much());
  credits.steps.consumed(0);
  CHECK(credits.owes_much());
  credits.give_back();
  CHECK_FALSE(credits.owes_much());
  credits.of(FrameKind::eager).consumed(kSmallOwed - kFrameCost);
  CHECK(credits.owes_much());
}
