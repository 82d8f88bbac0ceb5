#include "gradient_sync/synced_ranks.h"
#include "support/catch.h"

using namespace anello::test;

namespace {

// Rank r has steps[r] steps; afterwards all have joined.
void train(const std::vector<int>& steps, int last, anello_gradient_sync_config_t config) {
  config.uneven = 1;
  CHECK(run_ranks(int(steps.size()), "shm", [&](const Rank& rank) {
          Model model(rank);
          model.ok(model.create(config), "create");
          for (int step = 0; step < steps[std::size_t(rank.rank)]; ++step) {
            model.step(step);
            model.expect("step " + std::to_string(step), [&](std::size_t i, std::size_t e) {
              float sum = 0;
              int active = 0;
              for (int r = 0; r < rank.size; ++r) {
                if (step >= steps[std::size_t(r)]) continue;
                sum += gradient_of(r, i, e, step);
                ++active;
              }
              // As it is done: the sum, then one factor.
              return config.average_over_active != 0 ? sum * float(1.0 / active) : sum / float(rank.size);
            });
          }
          int joined_last = -5;
          model.ok(anello_gradient_sync_join(model.sync, &joined_last), "join");
          model.require(joined_last == last, "last is " + std::to_string(joined_last));
          model.fails(anello_gradient_sync_begin(model.sync, 0), ANELLO_ERR_STATE, "begin after join", "joined");
        }) == "");
}

}  // namespace

TEST_CASE("ranks without data add zeros until all have joined") {
  for (const int over_active : {0, 1}) {
    for (const int unused : {0, 1}) {
      anello_gradient_sync_config_t config = small_buckets();
      config.average_over_active = over_active;
      config.find_unused = unused;
      train({3, 5, 1}, 1, config);
      train({0, 2}, 1, config);
      train({2, 0}, 0, config);
      train({2, 2, 2}, 2, config);
      train({0, 0}, -1, config);
    }
  }
}

TEST_CASE("ranks without data follow a static graph and a wire type") {
  anello_gradient_sync_config_t config = small_buckets();
  config.static_graph = 1;
  train({4, 1}, 0, config);
  train({0, 3}, 1, config);
  config.wire = ANELLO_BFLOAT16;
  config.error_feedback = 1;
  train({1, 4}, 1, config);
}
