// Calls in which one rank alone gives, as a broadcast's root does: where its memory is not mapped, or rather not read,
// it goes on before anybody else has come, and results are right whatever either rank has.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

using namespace failures;

namespace {

// Reduces to rank 0 and broadcasts from rank 1 of 8 KiB, in memory that is another one from call to call on each rank;
// and then what the one that only gives does before anybody else has come.
const Role giving("giving", [](Rank& me) {
  const std::string wishes = me.setting("wishes", "");
  if (!wishes.empty()) ::setenv("ANELLO_STAGING", wishes[std::size_t(me.rank())] == 'a' ? "always" : "never", 1);
  const anello_comm_t comm = me.create();
  constexpr std::size_t kCount = 2048;
  const Memory plain(kCount * sizeof(float), false), mapped(kCount * sizeof(float), true);
  const auto value = [](int rank, int call, std::size_t i) { return float(call + 100 * rank + int(i % 1009)); };
  for (int call = 0; call < 240; ++call) {
    // Over time all four of what two ranks may have, for some calls the same.
    float* const at = (call >> (me.rank() + 2) & 1) != 0 ? plain.as<float>() : mapped.as<float>();
    const bool reduces = call % 2 == 0 && me.size() == 2;
    for (std::size_t i = 0; i < kCount; ++i) at[i] = value(me.rank(), call, i);
    me.check(reduces ? anello_reduce(at, at, kCount, ANELLO_FLOAT32, ANELLO_SUM, 0, comm)
                     : anello_broadcast(at, kCount, ANELLO_FLOAT32, 1, comm),
             reduces ? "reduce" : "broadcast", comm);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float expected = !reduces         ? value(1, call, i)
                             : me.rank() == 0 ? value(0, call, i) + value(1, call, i)
                                              : value(1, call, i);
      if (!me.check(at[i] == expected, "call " + std::to_string(call) + ", element " + std::to_string(i))) return;
    }
  }
  if (me.rank() != 1) me.hear();
  for (int call = 0; call < 3; ++call) {
    float* const at = plain.as<float>();
    for (std::size_t i = 0; i < kCount; ++i) at[i] = value(me.rank(), call, i);
    me.check(anello_broadcast(at, kCount, ANELLO_FLOAT32, 1, comm), "broadcast", comm);
    me.check(at[kCount - 1] == value(1, call, kCount - 1), "broadcast ahead");
  }
  me.say("ahead");
  me.check(anello_comm_destroy(comm), "destroy");
});

}  // namespace

TEST_CASE("who alone gives sends what is not mapped, or rather not read, without a word from the others") {
  for (const auto& [ranks, wishes] :
       std::vector<std::pair<int, std::string>>{{2, ""}, {2, "aa"}, {2, "an"}, {2, "na"}, {3, ""}}) {
    INFO(ranks << " ranks, wishes: " << wishes);
    Ranks job(ranks, "giving", "shm", {{"wishes", wishes}});
    job.expect(1, "ahead");
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      job.tell(rank, "go");
      job.expect(rank, "ahead");
    }
    job.finish();
  }
}
