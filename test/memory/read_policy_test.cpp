// Tests when calls over readable memory are staged, and when they go back to reading.
#include "memory/read_policy.h"
#include "support/catch.h"

#include <vector>

using anello::memory::ReadPolicy;
using Way = ReadPolicy::Way;

namespace {

constexpr std::size_t kBytes = 64 * 1024;

// Durations of whole calls, in ns.
struct Takes {
  std::int64_t read, staged;
  std::int64_t of(Way way) const { return way == Way::read ? read : staged; }
};
constexpr Takes kReadFast{5000, 9000}, kStagedFast{9000, 5000};

struct Count {
  int staged = 0;
  int measured = 0;
};

std::int64_t time_ns = 0;
std::int64_t now() { return time_ns; }

// Calls of a rank that no other rank overrules.
Count count(ReadPolicy& policy, int calls, const Takes& takes, std::size_t bytes = kBytes) {
  Count counted;
  for (int call = 0; call < calls; ++call) {
    const ReadPolicy::Turn turn = policy.next(bytes, true, now);
    if (turn.way == Way::staged) ++counted.staged;
    if (turn.measured) ++counted.measured;
    time_ns += takes.of(turn.way);
  }
  return counted;
}

// A call of ranks that hear each other: it is staged if one of them wants that.
Way call(std::vector<ReadPolicy>& ranks, const Takes& takes, int reads_nothing = -1) {
  bool staged = false, judged = false;
  for (int rank = 0; rank < int(ranks.size()); ++rank) {
    const ReadPolicy::Turn turn = ranks[std::size_t(rank)].next(kBytes, rank != reads_nothing, now);
    staged = staged || turn.way == Way::staged;
    judged = judged || (turn.way == Way::staged && !turn.trial && rank != reads_nothing);
  }
  const Way way = staged ? Way::staged : Way::read;
  for (ReadPolicy& rank : ranks) {
    if (judged) rank.follow(kBytes);
  }
  time_ns += takes.of(way);
  return way;
}

int staged_of(std::vector<ReadPolicy>& ranks, int calls, const Takes& takes, int reads_nothing = -1) {
  int staged = 0;
  for (int i = 0; i < calls; ++i) staged += call(ranks, takes, reads_nothing) == Way::staged ? 1 : 0;
  return staged;
}

}  // namespace

TEST_CASE("trials of staging become rarer while reading is faster") {
  ReadPolicy policy;
  // Each trial stages ten calls.
  const int first = count(policy, 1000, kReadFast).staged;
  CHECK(first >= 30);
  CHECK(first <= 50);
  // Later sixteen calls of every 1,024 are staged.
  count(policy, 10 * 1024 - 1000, kReadFast);
  const Count later = count(policy, 10 * 1024, kReadFast);
  CHECK(later.staged == 10 * 16);
  CHECK(later.measured == 10 * (16 + 8));
}

TEST_CASE("calls that are faster staged are staged after one trial") {
  ReadPolicy policy;
  policy.stagger(1);  // the first trial of 64 KiB begins with call 32
  CHECK(count(policy, 31, kStagedFast).staged == 0);
  CHECK(count(policy, 32, kStagedFast).staged == 32);
  // Trials of reading begin with calls 64, 128 and so on.
  CHECK(count(policy, 10, kStagedFast).staged == 0);
  CHECK(count(policy, 54, kStagedFast).staged == 54);
  CHECK(count(policy, 10, kStagedFast).staged == 0);
}

TEST_CASE("the policy notices when the faster way changes") {
  ReadPolicy policy;
  count(policy, 5000, kReadFast);
  CHECK(count(policy, 3000, kStagedFast).staged > 1500);
  CHECK(count(policy, 3000, kReadFast).staged < 1500);
}

TEST_CASE("a way that is hardly faster is not taken") {
  ReadPolicy policy;
  CHECK(count(policy, 1000, {5000, 4400}).staged <= 50);
  ReadPolicy faster;
  CHECK(count(faster, 1000, {5000, 4300}).staged > 800);
}

TEST_CASE("a program's work between its calls counts") {
  ReadPolicy policy;
  int staged = 0;
  for (int number = 0; number < 1000; ++number) {
    const bool is_staged = policy.next(kBytes, true, now).way == Way::staged;
    staged += is_staged ? 1 : 0;
    time_ns += is_staged ? 6000 : 5000 + 4000;  // the call, and a buffer that is rewritten after others have read it
  }
  CHECK(staged > 800);
}

TEST_CASE("each size is judged by itself") {
  ReadPolicy policy;
  count(policy, 1000, kReadFast, 64 * 1024);
  CHECK(count(policy, 400, kStagedFast, 512 * 1024).staged > 250);
  // This also holds if sizes take turns.
  ReadPolicy turns;
  int staged = 0;
  for (int number = 0; number < 4000; ++number)
    staged += number % 2 == 0 ? count(turns, 1, kReadFast, 8 * 1024).staged : count(turns, 1, kStagedFast).staged;
  CHECK(staged > 1700);
  CHECK(staged < 2300);
}

TEST_CASE("trials come after fewer calls if these are large") {
  ReadPolicy small, large;
  count(small, 100'000, kReadFast, 16 * 1024);
  count(large, 100'000, kReadFast, 16 * 1024 * 1024);
  CHECK(count(small, 1024, kReadFast, 16 * 1024).measured == 24);
  CHECK(count(large, 1024, kReadFast, 16 * 1024 * 1024).measured == 18 * 16);
}

TEST_CASE("ranks that disagree stage, and try to read together") {
  std::vector<ReadPolicy> ranks(3);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) count(ranks[rank], 700, rank == 1 ? kStagedFast : kReadFast);
  CHECK(staged_of(ranks, 4096, kStagedFast) > 3900);
  CHECK(staged_of(ranks, 4096, kReadFast) < 2100);
  CHECK(staged_of(ranks, 4096, kReadFast) < 200);
}

TEST_CASE("a rank that reads nothing follows those that read") {
  std::vector<ReadPolicy> ranks(3);
  CHECK(staged_of(ranks, 1000, kStagedFast, 0) > 800);
  CHECK(staged_of(ranks, 4096, kReadFast, 0) < 1200);
  CHECK(ranks[0].next(kBytes, false, now).way == Way::read);
}

TEST_CASE("a rank does not judge by a measurement if it read nothing in the first call") {
  time_ns = 1'000'000'000;
  ReadPolicy policy;
  policy.stagger(1);  // the first trial begins with call 32, and the calls to compare it with eight calls before
  int staged = 0;
  for (int call = 1; call <= 56; ++call) {
    const bool reads = call != 24;  // the rank is the root of that broadcast
    staged += policy.next(kBytes, reads, now).way == Way::staged ? 1 : 0;
    time_ns += 5000;
  }
  CHECK(staged == 10);
}

TEST_CASE("no rank follows another's trial") {
  std::vector<ReadPolicy> ranks(2);
  CHECK(staged_of(ranks, 1000, kReadFast, 0) <= 50);
}

TEST_CASE("calls may skip next() until the next measured one") {
  ReadPolicy policy, told;
  policy.follow(kBytes);
  told.follow(kBytes);
  int passed = 0;
  while (!policy.peek(kBytes).measured) policy.next(kBytes, true, now), ++passed;
  CHECK(int(told.unmeasured(kBytes)) == passed);
  told.skip(kBytes, told.unmeasured(kBytes));
  CHECK(told.unmeasured(kBytes) == 0);
  for (int number = 0; number < 20; ++number) {
    const ReadPolicy::Turn one = policy.next(kBytes, true, now), other = told.next(kBytes, true, now);
    CHECK((one.way == other.way && one.measured == other.measured && one.trial == other.trial));
  }
}

TEST_CASE("a call count that wraps changes nothing") {
  ReadPolicy policy;
  policy.skip(kBytes, UINT32_MAX - 5000);  // skips over the first trial
  CHECK(count(policy, 20'000, kStagedFast).staged > 14'000);
  CHECK(count(policy, 20'000, kReadFast).staged < 2000);
}

TEST_CASE("small calls and very large ones are never staged for speed") {
  CHECK_FALSE(ReadPolicy::concerns(512, 2, false));
  CHECK_FALSE(ReadPolicy::concerns(1024, 4, false));
  CHECK(ReadPolicy::concerns(1024, 2, false));
  CHECK_FALSE(ReadPolicy::concerns(4 * 1024 * 1024, 2, false));
  CHECK_FALSE(ReadPolicy::concerns(256 * 1024, 4, false));
  CHECK(ReadPolicy::concerns(256 * 1024, 4, true));
  CHECK(ReadPolicy::concerns_message(1024 * 1024, 1));
  CHECK_FALSE(ReadPolicy::concerns_message(1024 * 1024, 2));
  CHECK_FALSE(ReadPolicy::concerns_message(256 * 1024, 3));
}
