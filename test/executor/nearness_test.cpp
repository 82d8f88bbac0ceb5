// When calls over memory that others could read are staged, and when they are read where they lie again.
#include "executor/nearness.h"

#include <catch2/catch.hpp>

using anello::executor::Nearness;
using By = Nearness::By;
using Way = Nearness::Way;
using Wish = Nearness::Wish;

namespace {

constexpr std::size_t kBytes = 64 * 1024;
constexpr std::int64_t kFast = kBytes / 32, kSlow = kBytes / 8;  // ns

struct Count {
  int staged = 0;
  int timed = 0;
};

// What whole calls take, read and staged.
struct Calls {
  std::int64_t read_ns, staged_ns;
};

// The ways of so many calls of a rank whose reading is slow.
Count count(Nearness& nearness, int calls, const Calls& take, std::size_t bytes = kBytes) {
  Count counted;
  for (int call = 0; call < calls; ++call) {
    const Way way = nearness.way(bytes, 2, Wish::by_time);
    if (way == Way::staged || way == Way::staged_timed) ++counted.staged;
    if (way == Way::staged_timed) nearness.ended(take.staged_ns, true);
    if (way != Way::read_timed) continue;
    ++counted.timed;
    nearness.took(bytes, By::load, static_cast<std::int64_t>(bytes / 8));
    nearness.ended(take.read_ns, false);
  }
  return counted;
}

// So many calls of a rank whose reading takes so long when it is timed.
Count count(Nearness& nearness, int calls, std::int64_t ns, By by = By::load, std::size_t bytes = kBytes) {
  Count counted;
  for (int call = 0; call < calls; ++call) {
    const Way way = nearness.way(bytes, 2, Wish::by_time);
    if (way == Way::staged) ++counted.staged;
    if (way != Way::read_timed) continue;
    ++counted.timed;
    nearness.took(bytes, by, ns);
  }
  return counted;
}

}  // namespace

TEST_CASE("what comes fast is read where it lies, and timed seldom") {
  Nearness nearness;
  const Count counted = count(nearness, 640, kFast);
  CHECK(counted.staged == 0);
  CHECK(counted.timed == 40);
}

TEST_CASE("what comes slowly twice in a row is staged, and looked at again more and more seldom") {
  Nearness nearness;
  CHECK(count(nearness, 17, kSlow).staged == 0);
  CHECK(count(nearness, 46, kSlow).staged == 46);
  // Calls 64 and 65 look, and the next one knows: 66 to 127, 130 to 255, 258 to 511, 514 to 1023, and from then on all
  // but two of each 1,024.
  CHECK(count(nearness, 1024 - 63, kSlow).staged == 62 + 126 + 254 + 510);
  CHECK(count(nearness, 1024, kSlow).staged == 1022);
  // Once it comes fast the next ones are read, too, and the next time it is slow is the first again.
  CHECK(count(nearness, 1024, kFast).staged == 0);
  CHECK(count(nearness, 640, kFast).staged == 0);
  CHECK(count(nearness, 64, kSlow).staged == 46);
}

TEST_CASE("a pause is as long as calls are small") {
  CHECK(Nearness::pause(16 * 1024, true, 512) == 1024);
  CHECK(Nearness::pause(16 * 1024, true, 1024) == 1024);
  CHECK(Nearness::pause(600 * 1024, true, 512) == 256);
  CHECK(Nearness::pause(1024 * 1024, true, 512) == 256);
  CHECK(Nearness::pause(16 * 1024, false, 1024) == 64);
}

TEST_CASE("what is larger is looked at again sooner, also where the last ones were small") {
  Nearness nearness;
  count(nearness, 1024 + 2, kSlow);
  int staged = 0;
  while (nearness.way(1024 * 1024 - 64 * std::size_t(staged % 2), 2, Wish::by_time) == Way::staged) ++staged;
  CHECK(staged == 253);
  // As many lines are cold longer.
  for (int cold = 1; cold < 3; ++cold) CHECK(nearness.way(1024 * 1024, 2, Wish::by_time) == Way::read);
  CHECK(nearness.way(1024 * 1024, 2, Wish::by_time) == Way::read_timed);
}

TEST_CASE("calls of another size are looked at after a few of them, and later where they are far as well") {
  Nearness near, nearness;
  count(near, 1100, kSlow);
  CHECK(count(near, 60, kFast / 2, By::load, kBytes / 2).staged == 7);
  count(nearness, 1100, kSlow);
  CHECK(count(nearness, 60, kSlow / 2, By::load, kBytes / 2).staged == 58);
  CHECK(count(nearness, 15, kSlow).staged == 15);
  CHECK(count(nearness, 45, kSlow).staged == 43);
  CHECK(count(nearness, 31, kFast / 2, By::load, kBytes / 2).staged == 31);
  CHECK(count(nearness, 31, kFast / 2, By::load, kBytes / 2).staged == 0);
  // Sizes that take turns are none that follow each other.
  Nearness turns;
  int staged = 0;
  count(turns, 17, kSlow);
  for (int call = 0; call < 40; ++call)
    staged += turns.way(call % 2 == 0 ? kBytes : kBytes / 2, 2, Wish::by_time) == Way::staged ? 1 : 0;
  CHECK(staged == 40);
}

TEST_CASE("one slow call in between changes nothing") {
  Nearness nearness;
  int staged = 0;
  for (int timed = 0, call = 0; call < 640; ++call) {
    const Way way = nearness.way(kBytes, 2, Wish::by_time);
    if (way == Way::staged) ++staged;
    if (way == Way::read_timed) nearness.took(kBytes, By::load, ++timed % 2 == 0 ? 1000 * kSlow : kFast);
  }
  CHECK(staged == 0);
}

TEST_CASE("what a system call reads may take longer") {
  Nearness loaded, called;
  CHECK(count(loaded, 64, kBytes / 12).staged > 0);
  CHECK(count(loaded, 64, kBytes / 12, By::load).timed > 0);
  CHECK(count(called, 640, kBytes / 12, By::call).staged == 0);
  CHECK(count(called, 640, kSlow, By::call).staged > 0);
}

TEST_CASE("a large buffer that one rank alone reads by system call may take less long than those that both read") {
  constexpr std::size_t kHalf = 512 * 1024, kMiB = 1024 * 1024;
  Nearness both, alone, alone_and_near, all, all_and_near;
  CHECK(count(both, 640, kHalf / 12, By::call, kHalf).staged == 0);
  CHECK(count(alone, 640, kHalf / 12, By::call_alone, kHalf).staged > 0);
  CHECK(count(alone_and_near, 640, kHalf / 17, By::call_alone, kHalf).staged == 0);
  // Two buffers of a MiB are all that the nearer cache holds.
  CHECK(count(all, 640, kMiB / 11, By::call_alone, kMiB).staged > 0);
  CHECK(count(all_and_near, 640, kMiB / 13, By::call_alone, kMiB).staged == 0);
}

TEST_CASE("what nothing was read in says nothing, and what is read late is judged late") {
  Nearness nearness;
  for (int call = 0; call < 64; ++call) CHECK(nearness.way(kBytes, 2, Wish::by_time) != Way::staged);
  nearness.took(kBytes, By::load, kSlow);
  CHECK(nearness.way(kBytes, 2, Wish::by_time) == Way::read_timed);
  nearness.took(kBytes / 2, By::load, kFast);
  nearness.took(kBytes / 2, By::load, kSlow);
  CHECK(nearness.way(kBytes, 2, Wish::by_time) == Way::staged);
}

TEST_CASE("where ranks share a cache, what has been staged there makes a dozen reads slow that count for nothing") {
  constexpr std::size_t kPart = 96 * 1024;
  Nearness nearness;
  nearness.way(kPart, 4, Wish::by_time);
  nearness.hear(kPart);
  int staged = 0, read = 0;
  for (int call = 0; call < 400; ++call) {
    const Way way = nearness.way(kPart, 4, Wish::by_time);
    if (way == Way::staged)
      ++staged;
    else
      ++read;
    if (way == Way::read_timed) nearness.took(kPart, By::call, read <= 12 ? kPart / 4 : kPart / 16);
  }
  CHECK(staged == 62);
  CHECK(Nearness::cold_calls(kPart, true) == 1);
  CHECK(Nearness::cold_calls(kPart, false) == 12);
  CHECK(Nearness::cold_calls(4 * kPart, true) == 3);
}

TEST_CASE("a rank that hears of another's choice makes it its own") {
  Nearness nearness;
  nearness.way(kBytes, 2, Wish::by_time);
  nearness.hear(kBytes);
  CHECK(count(nearness, 62, kFast).staged == 62);
  CHECK(count(nearness, 66, kFast).staged == 0);
}

TEST_CASE("a rank that reads nothing of others follows those that do") {
  Nearness root, other;
  int staged = 0;
  const auto call = [&](std::int64_t ns) {
    const Way its = root.way(kBytes, 2, Wish::by_time), own = other.way(kBytes, 2, Wish::by_time);
    if (its == Way::staged && own != Way::staged) other.hear(kBytes);
    if (own == Way::staged && its != Way::staged) root.hear(kBytes);
    if (its == Way::staged || own == Way::staged)
      ++staged;
    else if (own == Way::read_timed)
      other.took(kBytes, By::load, ns);
  };
  for (int i = 0; i < 320; ++i) call(kSlow);
  // From call 18 on, but for three looks of two calls.
  CHECK(staged == 320 - 17 - 6);
  for (int i = 320; i < 640; ++i) call(kFast);
  CHECK(staged == 640 - 17 - 6 - 129);
  CHECK(root.way(kBytes, 2, Wish::by_time) != Way::staged);
}

TEST_CASE("small calls and very large ones are read where they lie, whatever they took") {
  Nearness nearness;
  nearness.hear(kBytes);
  CHECK(nearness.way(512, 2, Wish::by_time) == Way::read);
  CHECK(nearness.way(1024, 4, Wish::by_time) == Way::read);
  CHECK(nearness.way(4 * 1024 * 1024, 2, Wish::by_time) == Way::read);
  CHECK(nearness.way(kBytes * 4, 4, Wish::by_time) == Way::read);
  CHECK(nearness.way(kBytes * 4, 4, Wish::by_time, true) == Way::staged);
  CHECK(nearness.way(kBytes * 32, 4, Wish::by_time, true) == Way::read);
  CHECK(nearness.way(kBytes, 4, Wish::by_time) == Way::staged);
}

TEST_CASE("who wishes one way or the other gets it") {
  Nearness nearness;
  CHECK(nearness.way(kBytes, 2, Wish::always) == Way::staged);
  nearness.hear(kBytes);
  CHECK(nearness.way(kBytes, 2, Wish::never) == Way::read);
}

TEST_CASE("what is slow to read, but slower staged, is read") {
  Nearness nearness;
  // Calls 16 and 17 are slow. Calls 18 to 23 are staged, and three of them measured. The next 256 calls read, then 512,
  // and so on.
  CHECK(count(nearness, 23, {5000, 9000}).staged == 6);
  CHECK(count(nearness, 256, {5000, 9000}).staged == 0);
  CHECK(count(nearness, 512, {5000, 9000}).staged == 6);
  const Count later = count(nearness, 100'000, {5000, 9000});
  CHECK(later.staged <= 8 * 6);
  CHECK(later.timed <= 100'000 / 16 + 2 * 8 + 1);
}

TEST_CASE("a call that is hardly faster staged is read") {
  Nearness nearness;
  CHECK(count(nearness, 1000, {5000, 4500}).staged <= 3 * 6);
  Nearness faster;
  CHECK(count(faster, 1000, {5000, 4000}).staged > 900);
}

TEST_CASE("what was found of calls of one size says nothing of others") {
  Nearness nearness;
  count(nearness, 1000, {5000, 9000}, 64 * 1024);
  CHECK(count(nearness, 200, {5000, 1000}, 512 * 1024).staged > 100);
}

TEST_CASE("a rank that hears that others stage measures that, too") {
  Nearness nearness;
  count(nearness, 16, {5000, 9000});
  nearness.hear(kBytes);
  CHECK(count(nearness, 100, {5000, 9000}).staged == 5);  // the call in which it heard was one more
}

TEST_CASE("a call in whose middle a rank hears that others stage is measured as neither") {
  Nearness nearness;
  CHECK(count(nearness, 17, {5000, 4000}).timed == 2);
  nearness.hear(kBytes);
  nearness.ended(1, false);
  nearness.ended(1, false);
  // Else those two would make staging look fast: 4,900 ns are no eighth less than 5,000.
  CHECK(count(nearness, 100, {5000, 4900}).staged <= 6);
}
