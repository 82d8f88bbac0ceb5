#include "progress/trickle.h"
#include "support/catch.h"

using anello::progress::Trickle;

namespace {

constexpr std::size_t kChunk = 128 * 1024;

// Waits, in each of which so much comes in so long.
struct Link {
  std::int64_t now_ns = 1'000'000;
  std::uint64_t taken = 0;

  void brings(Trickle& trickle, int waits, std::size_t bytes, std::int64_t ns) {
    for (int i = 0; i < waits; ++i) {
      trickle.waits(now_ns, taken);
      now_ns += ns;
      taken += bytes;
      trickle.came(now_ns, taken);
    }
  }
};

}  // namespace

TEST_CASE("who waits for a chunk over a link of 1 Gbit/s sleeps, but for its end; over a fast one he looks") {
  Trickle slow, fast;
  CHECK_FALSE(slow.outlasts_sleep(kChunk));  // nothing is known yet
  Link link;
  link.brings(slow, 20, 1500, 12'000);
  CHECK(slow.outlasts_sleep(kChunk));
  CHECK_FALSE(slow.outlasts_sleep(8 * 1024));
  link.brings(fast, 20, 64 * 1024, 20'000);
  CHECK_FALSE(fast.outlasts_sleep(kChunk));
}

TEST_CASE("what a link brought once is soon forgotten, whichever way it changes") {
  Trickle trickle;
  Link link;
  link.brings(trickle, 1000, 1500, 12'000);
  link.brings(trickle, 20, 64 * 1024, 20'000);
  CHECK_FALSE(trickle.outlasts_sleep(kChunk));
  link.brings(trickle, 200, 1500, 12'000);
  CHECK(trickle.outlasts_sleep(kChunk));
}

TEST_CASE("time in which nobody waited, or only something to send moved, says nothing of a link") {
  Trickle trickle;
  Link link;
  link.brings(trickle, 20, 64 * 1024, 20'000);
  trickle.waits(link.now_ns, link.taken);
  trickle.came(link.now_ns + 1000, link.taken);
  CHECK(trickle.is_waiting());
  trickle.forget_wait();  // the call is over
  link.now_ns += 1'000'000'000;
  link.brings(trickle, 1, 64 * 1024, 20'000);
  CHECK_FALSE(trickle.outlasts_sleep(kChunk));
}
