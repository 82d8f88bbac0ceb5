// The executor waits for an engine's pending steps, and when the operation ends early, it takes them back before
// anything else uses their memory.
#include "executor/held_engine.h"
#include "executor/rank_thread.h"
#include "support/catch.h"
#include "transports/inproc/transport.h"

#include <atomic>
#include <mutex>

using namespace anello;
using namespace anello::test;

namespace {

const MakeTransport kInproc = [](const memory::Arena& arena, int) { return transport::make_inproc(arena); };

// Runs two ranks' sum by the algorithm, and holds rank 0's steps. Once some are held, calls `then` on rank 0.
template <class Then>
void with_held_steps(const std::string& algorithm, int board, Then&& then) {
  LocalJobs jobs(2, transport::bit_of("inproc"));
  std::atomic<bool> let_go{false};
  std::atomic<int> there{0};
  std::mutex mutex;
  on_ranks(2, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("inproc"), kInproc, 0,
                  rank == 0 ? std::make_unique<HeldEngine>(let_go) : executor::make_engine());
    const auto group = me.add_group(2, 2, board, 0);
    ++there;
    while (there < 2) std::this_thread::yield();
    std::vector<float> data(1000, float(rank + 1));
    executor::Operation* const operation = me.allreduce(data.data(), data.size(), algorithm, 500, group.get());
    if (rank == 0) {
      while (!me.context().engine().has_pending()) me.context().test(*operation);
      const std::lock_guard held(mutex);
      then(me, *group, *operation, data, let_go);
    }
    me.finish(operation);
    me.context().remove_group(*group);
  });
}

struct Way {
  const char* algorithm;
  int board;
};
const Way kWays[] = {{"ring", -1}, {"tree", -1}, {"exchange", 0}};

}  // namespace

TEST_CASE("an operation is in flight until its engine reports that its steps are done") {
  for (const auto& [algorithm, board] : kWays) {
    CAPTURE(algorithm);
    bool early = true, right = false;
    with_held_steps(algorithm, board,
                    [&](RankThread& me, auto&, executor::Operation& operation, auto& data, auto& let_go) {
      early = false;
      for (int turn = 0; turn < 100; ++turn) early = early || me.context().test(operation);
      let_go = true;
      me.context().wait(operation);
      right = !operation.error && data == std::vector<float>(1000, 3.0f);
    });
    CHECK_FALSE(early);
    CHECK(right);
  }
}

TEST_CASE("an abort takes pending steps back: nothing is stored afterwards") {
  for (const auto& [algorithm, board] : kWays) {
    CAPTURE(algorithm);
    bool pending = true, changed = true;
    anello_result_t ended = ANELLO_OK;
    with_held_steps(
        algorithm, board,
        [&](RankThread& me, executor::Group& group, executor::Operation& operation, auto& data, auto& let_go) {
      const std::vector<float> before = data;
      me.context().abort(group, Error(ANELLO_ERR_ABORTED, "the test's own end"));
      pending = me.context().engine().has_pending();
      let_go = true;
      for (int turn = 0; turn < 100; ++turn) me.context().progress_once();
      changed = data != before;
      ended = operation.error.code();
        });
    CHECK_FALSE(pending);
    CHECK_FALSE(changed);
    CHECK(ended == ANELLO_ERR_ABORTED);
  }
}
