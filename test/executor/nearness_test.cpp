// When calls over mapped memory are staged, and when they are read where they lie again.
#include "executor/nearness.h"

#include <catch2/catch.hpp>

using anello::executor::Nearness;
using Wish = Nearness::Wish;

namespace {

constexpr std::size_t kBytes = 64 * 1024;
constexpr std::int64_t kFast = kBytes / 32, kSlow = kBytes / 8;  // ns

// So many calls of a rank whose reading takes so long when it is timed. How many of them were staged.
int staged_of(Nearness& nearness, int calls, std::int64_t ns, int* timed = nullptr) {
  int staged = 0;
  for (int call = 0; call < calls; ++call) {
    if (nearness.stages(kBytes, 2, Wish::by_time)) {
      ++staged;
    } else if (nearness.is_timed()) {
      nearness.took(kBytes, ns);
      if (timed != nullptr) ++*timed;
    }
  }
  return staged;
}

}  // namespace

TEST_CASE("what comes fast is read where it lies, and timed seldom") {
  Nearness nearness;
  int timed = 0;
  CHECK(staged_of(nearness, 640, kFast, &timed) == 0);
  CHECK(timed == 40);
}

TEST_CASE("what comes slowly is staged, and looked at again twice in a row now and then") {
  Nearness nearness;
  CHECK(staged_of(nearness, 16, kSlow) == 0);
  // Of calls 17 to 128: all but 63, 64, 127 and 128.
  CHECK(staged_of(nearness, 112, kSlow) == 108);
  // Once it has come fast again the next are read, too.
  CHECK(staged_of(nearness, 64, kFast) == 62);
  CHECK(staged_of(nearness, 64, kFast) == 0);
}

TEST_CASE("a rank that hears of another's choice makes it its own") {
  Nearness nearness;
  nearness.hear();
  CHECK(staged_of(nearness, 62, kFast) == 62);
  CHECK(staged_of(nearness, 66, kFast) == 0);
}

TEST_CASE("a rank that reads nothing of others follows those that do") {
  Nearness root, other;
  int staged = 0;
  for (int call = 1; call <= 640; ++call) {
    const bool root_stages = root.stages(kBytes, 2, Wish::by_time), other_stages = other.stages(kBytes, 2, Wish::by_time);
    if (root_stages != other_stages) (root_stages ? other : root).hear();
    if (root_stages || other_stages) ++staged;
    else if (other.is_timed()) other.took(kBytes, call < 320 ? kSlow : kFast);
  }
  // From call 17 to 318, but for four looks of two calls; what comes at call 320 is fast.
  CHECK(staged == 294);
  CHECK_FALSE(root.stages(kBytes, 2, Wish::by_time));
}

TEST_CASE("small calls and very large ones are read where they lie, whatever they took") {
  Nearness nearness;
  nearness.hear();
  CHECK_FALSE(nearness.stages(8 * 1024, 2, Wish::by_time));
  CHECK_FALSE(nearness.stages(4 * 1024 * 1024, 2, Wish::by_time));
  CHECK_FALSE(nearness.stages(kBytes * 2, 4, Wish::by_time));
  CHECK(nearness.stages(kBytes, 4, Wish::by_time));
}

TEST_CASE("who wishes one way or the other gets it") {
  Nearness nearness;
  CHECK(nearness.stages(kBytes, 2, Wish::always));
  nearness.hear();
  CHECK_FALSE(nearness.stages(kBytes, 2, Wish::never));
}
