#include "gradient_sync/synced_ranks.h"
#include "support/catch.h"

#include <chrono>
#include <thread>

using namespace anello::test;

TEST_CASE("ranks that describe other parameters are told which") {
  struct Case {
    const char* says;
    std::function<void(Model&, int rank)> differ;
    std::vector<std::size_t> sizes[2];
  };
  const std::vector<std::size_t> usual = counts(), shorter(usual.begin(), usual.end() - 1),
                                 other = {1000, 3, 30000, 0, 514, 70000, 16, 1};
  const Case cases[] =
      {
          {"parameter 2 is layer2 (30000 float32) on rank 0 and bias (30000 float32) on rank 1",
           [](Model& model, int rank) {
    if (rank == 1) model.name(2) = "bias";
           },
           {usual, usual}},
          {"parameter 4 is layer4 (513 float32) on rank 0 and layer4 (514 float32) on rank 1",
           [](Model&, int) {},
           {usual, other}},
          {"parameter 7 is none on rank 0 and layer7 (1 float32) on rank 1", [](Model&, int) {}, {shorter, usual}},
          {"parameter 7 is layer7 (1 float32) on rank 0 and none on rank 1", [](Model&, int) {}, {usual, shorter}},
  };
  for (const Case& one : cases) {
    CHECK(run_ranks(3, "shm", [&](const Rank& rank) {
            Model model(rank, one.sizes[rank.rank == 1]);
            one.differ(model, rank.rank);
            model.fails(model.create(small_buckets()), ANELLO_ERR_MISMATCH, "create", one.says);
            // The communicator goes on.
            Model again(rank);
            again.ok(again.create(small_buckets()), "create again");
            again.step(0);
            again.expect_average(0);
          }) == "");
  }
}

TEST_CASE("ranks with other options are told which") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          anello_gradient_sync_config_t config = small_buckets();
          if (rank.rank == 1) config.bucket_bytes = 12345;
          model.fails(model.create(config), ANELLO_ERR_MISMATCH, "create",
                      "bucket_bytes 65536 on rank 0 and bucket_bytes 12345 on rank 1");
          config = small_buckets();
          config.prescale = rank.rank == 0 ? 1.0 / 3 : 0.333333333333;
          model.fails(model.create(config), ANELLO_ERR_MISMATCH, "create", "prescale 0.33333333333333331 on rank 0");
        }) == "");
}

TEST_CASE("who is refused an argument tells all ranks") {
  CHECK(run_ranks(2, "shm",
                  [](const Rank& rank) {
    Model model(rank);
    anello_gradient_sync_config_t config = small_buckets();
    if (rank.rank == 1) config.prescale = INFINITY;
    model.fails(model.create(config), ANELLO_ERR_ARGUMENT, "create", "rank 1: prescale and postscale must be finite");
    config = small_buckets();
    config.size = rank.rank == 0 ? 3 : config.size;
    model.fails(model.create(config), ANELLO_ERR_ARGUMENT, "create", "rank 0: anello_gradient_sync_config_t.size is 3");
    std::vector<anello_tensor_t> tensors = model.parameters();
    tensors[1].dtype = ANELLO_INT32;
    model.fails(anello_gradient_sync_create(rank.comm, tensors.data(), tensors.size(), nullptr, &model.sync),
                ANELLO_ERR_TYPE, "create", "parameter 1 (layer1) is of int32");
    model.ok(model.create(small_buckets()), "create");
    // Neither a number that there is not nor weights that nobody can send is the end of it.
    model.fails(anello_gradient_sync_ready(model.sync, 8, nullptr), ANELLO_ERR_ARGUMENT, "ready",
                "parameter 8: there are 8");
    anello_tensor_t weights = ANELLO_TENSOR_INITIALIZER;
    weights.count = 5;
    model.fails(anello_gradient_sync_broadcast(model.sync, &weights, 1, 0), ANELLO_ERR_ARGUMENT, "broadcast",
                "the data of tensor 0 is NULL");
    model.fails(anello_gradient_sync_broadcast(model.sync, nullptr, 0, 2), ANELLO_ERR_ARGUMENT, "broadcast",
                "root 2 is not one of 2 ranks");
    model.step(0);
    model.expect_average(0);
    void* view = nullptr;
    model.fails(anello_gradient_sync_view(model.sync, 0, &view), ANELLO_ERR_STATE, "view", "views");
    model.step(1);
    model.expect_average(1);
    std::vector<float> mine(rank.rank == 0 ? 10 : 11);
    weights.data = mine.data();
    weights.count = mine.size();
    model.fails(anello_gradient_sync_broadcast(model.sync, &weights, 1, 0), ANELLO_ERR_MISMATCH, "broadcast",
                "tensor 0 is 10 float32 on rank 0 and 11 float32 on rank 1");
        }) == "");
}

TEST_CASE("a step that goes wrong on one rank ends on all, with its name") {
  struct Case {
    const char* says;
    anello_gradient_sync_config_t config;
    std::function<anello_result_t(Model&)> rank_1;  // in place of a step
  };
  anello_gradient_sync_config_t usual = small_buckets(), fixed = small_buckets();
  fixed.static_graph = 1;
  const auto all_but = [](Model& model, std::size_t left_out) {
    for (std::size_t i = model.size(); i-- > 0;) {
      if (i == left_out) continue;
      const anello_result_t result = anello_gradient_sync_ready(model.sync, i, nullptr);
      if (result != ANELLO_OK) return result;
    }
    return anello_gradient_sync_wait(model.sync);
  };
  const Case cases[] =
      {
          {"rank 1, step 1: layer3 became ready twice", usual,
           [](Model& model) {
    model.ok(anello_gradient_sync_ready(model.sync, 3, nullptr), "ready");
    return anello_gradient_sync_ready(model.sync, 3, nullptr);
           }},
          {"rank 1, step 1: no gradient of layer2;", usual, [&](Model& model) { return all_but(model, 2); }},
          {"rank 1, step 1: layer2 is unused, but", usual,
           [](Model& model) { return anello_gradient_sync_unused(model.sync, 2); }},
          {"rank 1, step 1: no gradient of layer2, which the first step had", fixed,
           [&](Model& model) { return all_but(model, 2); }},
          {"rank 1, step 1: layer1 became ready more often", fixed,
           [](Model& model) {
    model.ok(anello_gradient_sync_ready(model.sync, 1, nullptr), "ready");
    return anello_gradient_sync_ready(model.sync, 1, nullptr);
           }},
             {"rank 1, step 1: begin: step 1 was not waited for", usual,
              [](Model& model) { return anello_gradient_sync_begin(model.sync, 0); }},
             {"rank 1, step 1: join: step 1 was not waited for", usual,
              [](Model& model) { return anello_gradient_sync_join(model.sync, nullptr); }},
             };
  for (const Case& one : cases) {
    CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
            Model model(rank);
            model.ok(model.create(one.config), "create");
            model.step(0);
            anello_result_t code = ANELLO_ERR_STATE;
            if (rank.rank == 1) {
              model.begin();
              model.fails(one.rank_1(model), code, "the step", one.says);
            } else {
              // Wherever it learns of it.
              anello_result_t result = anello_gradient_sync_begin(model.sync, 0);
              if (result == ANELLO_OK) result = all_but(model, model.size());
              code = ANELLO_ERR_ABORTED;
              model.fails(result, code, "the other's step", one.says);
            }
            model.fails(anello_gradient_sync_begin(model.sync, 0), code, "begin after it", one.says);
            model.fails(anello_gradient_sync_wait(model.sync), code, "wait after it", one.says);
            rank.ok(anello_barrier(rank.comm), "the program's communicator");
          }) == "");
  }
}

TEST_CASE("destroy in the middle of a step is quick, and the others are told") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          model.ok(model.create(small_buckets()), "create");
          model.step(0);
          model.begin();
          rank.ok(anello_barrier(rank.comm), "both are in the step");
          model.ready(7);
          model.ready(6);
          if (rank.rank == 1) {
            for (std::size_t i = 6; i-- > 3;) model.ready(i);
            const auto start = std::chrono::steady_clock::now();
            model.ok(anello_gradient_sync_destroy(model.sync), "destroy");
            model.require(std::chrono::steady_clock::now() - start < std::chrono::seconds(5), "destroy took its time");
            model.fails(anello_gradient_sync_wait(model.sync), ANELLO_ERR_STATE, "wait", "destroyed");
            model.sync = ANELLO_GRADIENT_SYNC_NULL;
          } else {
            anello_result_t result = ANELLO_OK;
            for (std::size_t i = 6; i-- > 0 && result == ANELLO_OK;)
              result = anello_gradient_sync_ready(model.sync, i, nullptr);
            if (result == ANELLO_OK) result = anello_gradient_sync_wait(model.sync);
            model.fails(result, ANELLO_ERR_ABORTED, "the step",
                        "rank 1 destroyed its gradient synchronizer in the middle of step 1");
          }
        }) == "");
}

TEST_CASE("what is no synchronizer is refused") {
  char line[8];
  std::size_t count = 0;
  CHECK(anello_gradient_sync_begin(ANELLO_GRADIENT_SYNC_NULL, 0) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_gradient_sync_bucket_count(reinterpret_cast<anello_gradient_sync_t>(0x1234567), &count) ==
        ANELLO_ERR_STATE);
  CHECK(anello_gradient_sync_summary(ANELLO_GRADIENT_SYNC_NULL, line, sizeof line) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_gradient_sync_destroy(ANELLO_GRADIENT_SYNC_NULL) == ANELLO_OK);
  CHECK(anello_gradient_sync_create(ANELLO_COMM_NULL, nullptr, 0, nullptr, nullptr) == ANELLO_ERR_ARGUMENT);
}
