#include "gradient_sync/synced_ranks.h"
#include "support/catch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

using namespace anello::test;

TEST_CASE("factors before and after, and other operations") {
  struct Case {
    anello_op_t op;
    double before, after;
  };
  for (const int views : {0, 1}) {
    for (const Case& each : {Case{ANELLO_SUM, 1, 1}, Case{ANELLO_SUM, 0.25, 1}, Case{ANELLO_SUM, 0.5, 0.125},
                             Case{ANELLO_AVG, 1, 4}, Case{ANELLO_MIN, 1, 1}, Case{ANELLO_MAX, -1, 2}}) {
      CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
              Model model(rank);
              anello_gradient_sync_config_t config = small_buckets();
              config.op = each.op;
              config.prescale = each.before;
              config.postscale = each.after;
              config.views = views;
              model.ok(model.create(config), "create");
              for (int step = 0; step < 3; ++step) {
                model.step(step);
                model.expect(anello_op_name(each.op), [&](std::size_t i, std::size_t e) {
                  const float a = gradient_of(0, i, e, step) * float(each.before),
                              b = gradient_of(1, i, e, step) * float(each.before);
                  const float combined = each.op == ANELLO_MIN   ? std::min(a, b)
                                         : each.op == ANELLO_MAX ? std::max(a, b)
                                                                 : a + b;
                  return (each.op == ANELLO_AVG ? combined / 2 : combined) * float(each.after);
                });
              }
            }) == "");
    }
  }
}

TEST_CASE("what no rank has a gradient of stays as it was") {
  for (const int views : {0, 1}) {
    CHECK(run_ranks(3, "shm", [&](const Rank& rank) {
            Model model(rank);
            anello_gradient_sync_config_t config = small_buckets();
            config.find_unused = 1;
            config.views = views;
            model.ok(model.create(config), "create");
            for (int step = 0; step < 5; ++step) {
              // Rank r leaves out what r and the step pick; nobody has layer 4. Half of it is said, half found by wait.
              const auto has = [&](int r, std::size_t i) {
                return i != 4 && (i + std::size_t(r) + std::size_t(step)) % 3 != 0;
              };
              model.begin();
              for (std::size_t i = model.size(); i-- > 0;) {
                if (has(rank.rank, i)) {
                  model.compute(i, step);
                  model.ready(i);
                } else {
                  std::fill_n(model.gradient(i), model.count(i), 77.0f);
                  if (i % 2 == 0) model.ok(anello_gradient_sync_unused(model.sync, i), "unused");
                }
              }
              model.wait();
              model.expect("step " + std::to_string(step), [&](std::size_t i, std::size_t e) {
                float sum = 0;
                bool any = false;
                for (int r = 0; r < 3; ++r) {
                  sum += has(r, i) ? gradient_of(r, i, e, step) : 0;
                  any = any || has(r, i);
                }
                return any ? sum / 3 : views != 0 ? 0 : 77;
              });
              for (std::size_t i = 0; i < model.size(); ++i) {
                int used = -1;
                const void* data = nullptr;
                model.ok(anello_gradient_sync_result(model.sync, i, &data, &used), "result");
                model.require(used == (i != 4), "layer " + std::to_string(i) + " is used " + std::to_string(used));
                model.require(model.count(i) == 0 || data == model.gradient(i), "the result is elsewhere");
              }
            }
          }) == "");
  }
}

TEST_CASE("a static graph: gradients that come several times, and some that never come") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          anello_gradient_sync_config_t config = small_buckets();
          config.static_graph = 1;
          model.ok(model.create(config), "create");
          for (int step = 0; step < 4; ++step) {
            model.begin();
            for (std::size_t i = model.size(); i-- > 0;) {
              if (i == 2) continue;                    // on no rank
              if (i == 5 && rank.rank == 1) continue;  // on rank 0 alone
              for (int time = 0; time < (i == 0 ? 3 : 1); ++time) {
                model.compute(i, time == 2 || i != 0 ? step : 50 + time);
                model.ready(i);
              }
            }
            std::fill_n(model.gradient(2), model.count(2), 77.0f);
            model.wait();
            model.expect("step " + std::to_string(step), [&](std::size_t i, std::size_t e) {
              return i == 2 ? 77 : i == 5 ? gradient_of(0, i, e, step) / 2 : sum_of(2, i, e, step) / 2;
            });
            int used = -1;
            anello_gradient_sync_result(model.sync, 2, nullptr, &used);
            model.require(used == 0, "layer 2 is used");
            anello_gradient_sync_result(model.sync, 5, nullptr, &used);
            model.require(used == 1, "layer 5 is not used");
          }
        }) == "");
}

TEST_CASE("flush says that no gradient will come any more, and what has come is sent") {
  for (const int fixed : {0, 1}) {
    CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
            Model model(rank);
            anello_gradient_sync_config_t config = small_buckets();
            config.find_unused = fixed == 0;
            config.static_graph = fixed;
            config.delay = 1;
            model.ok(model.create(config), "create");
            for (int step = 0; step < 3; ++step) {
              model.begin();
              for (std::size_t i = model.size(); i-- > 0;) {
                if (i == 2) continue;
                model.compute(i, step);
                model.ready(i);
              }
              anello_bucket_t last = ANELLO_BUCKET_INITIALIZER;
              std::size_t buckets = 0;
              anello_gradient_sync_bucket_count(model.sync, &buckets);
              anello_gradient_sync_bucket(model.sync, buckets - 1, &last);
              model.require(last.start_ns == 0, "a bucket was sent before flush");
              model.ok(anello_gradient_sync_flush(model.sync), "flush");
              anello_gradient_sync_bucket(model.sync, buckets - 1, &last);
              model.require(last.start_ns > 0, "flush has not sent the last bucket");
              for (int done = 0; done == 0;) model.ok(anello_gradient_sync_test(model.sync, &done), "test");
              model.expect("step " + std::to_string(step),
                           [&](std::size_t i, std::size_t e) { return i == 2 ? -1 : sum_of(2, i, e, step) / 2; });
            }
          }) == "");
  }
}

TEST_CASE("16 bits on the wire: a sum is rounded once, not at each rank") {
  for (const auto& each : {std::pair{ANELLO_BFLOAT16, 256.0f}, std::pair{ANELLO_FLOAT16, 2048.0f}}) {
    const float most = each.second;
    CHECK(run_ranks(4, "shm", [&](const Rank& rank) {
            Model model(rank, {700, 20000});
            anello_gradient_sync_config_t config = small_buckets();
            config.wire = each.first;
            config.op = ANELLO_SUM;
            model.ok(model.create(config), "create");
            model.begin();
            for (std::size_t i = model.size(); i-- > 0;) {
              // most + 1 is no number of the type, and rounds to most: 1 at a time gets nowhere.
              std::fill_n(model.gradient(i), model.count(i), rank.rank == 0 ? most : rank.rank < 3 ? 1.0f : 0.0f);
              model.ready(i);
            }
            model.wait();
            model.expect("sum", [&](std::size_t, std::size_t) { return most + 2; });
          }) == "");
  }
}

TEST_CASE("16 bits on the wire, added in float32") {
  for (const int views : {0, 1}) {
    for (const anello_dtype_t wire : {ANELLO_FLOAT16, ANELLO_BFLOAT16}) {
      CHECK(run_ranks(4, "shm", [&](const Rank& rank) {
              Model model(rank);
              anello_gradient_sync_config_t config = small_buckets();
              config.wire = wire;
              config.views = views;
              model.ok(model.create(config), "create");
              anello_gradient_sync_statistics_t statistics = ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER;
              model.ok(anello_gradient_sync_query(model.sync, &statistics), "query");
              model.require(statistics.bytes < 2 * 102000 && statistics.bytes > 2 * 101000,
                            "bytes are " + std::to_string(statistics.bytes));
              for (int step = 0; step < 3; ++step) {
                model.step(step);
                model.expect_average(step);  // small whole numbers and quarters of them: exact in both
              }
            }) == "");
    }
  }
}

TEST_CASE("error feedback: sums over steps are those of float32") {
  const auto worst = [](int feedback) {
    double error = 0;
    CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
            Model model(rank, {300, 40});
            anello_gradient_sync_config_t config = small_buckets();
            config.wire = ANELLO_BFLOAT16;
            config.error_feedback = feedback;
            model.ok(model.create(config), "create");
            double sum = 0;
            for (int step = 0; step < 200; ++step) {
              model.begin();
              for (std::size_t i = model.size(); i-- > 0;) {
                std::fill_n(model.gradient(i), model.count(i), 1.0f + 0x1p-10f);
                model.ready(i);
              }
              model.wait();
              sum += double(model.gradient(0)[299]);
            }
            if (rank.rank == 0) error = std::fabs(sum - 200 * (1 + 0x1p-10));
          }) == "");
    return error;
  };
  CHECK(worst(0) > 0.15);
  CHECK(worst(1) < 0.02);
}

TEST_CASE("other types have buckets of their own") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          std::vector<float> singles(100, float(rank.rank));
          std::vector<double> doubles(70, rank.rank + 0x1p-40);
          std::vector<std::uint16_t> halves(33, rank.rank == 0 ? 0x3c00 : 0x4200);  // 1 and 3
          std::vector<float> pairs(20, float(3 * rank.rank));
          const anello_tensor_t tensors[] = {{sizeof(anello_tensor_t), "a", singles.data(), 100, ANELLO_FLOAT32},
                                             {sizeof(anello_tensor_t), "b", doubles.data(), 70, ANELLO_FLOAT64},
                                             {sizeof(anello_tensor_t), "c", halves.data(), 33, ANELLO_FLOAT16},
                                             {sizeof(anello_tensor_t), "d", pairs.data(), 10, ANELLO_COMPLEX64}};
          anello_gradient_sync_t sync = ANELLO_GRADIENT_SYNC_NULL;
          rank.ok(anello_gradient_sync_create(rank.comm, tensors, 4, nullptr, &sync), "create");
          rank.ok(anello_gradient_sync_begin(sync, 0), "begin");
          for (std::size_t i = 0; i < 4; ++i) rank.ok(anello_gradient_sync_ready(sync, i, nullptr), "ready");
          rank.ok(anello_gradient_sync_wait(sync), "wait");
          if (singles != std::vector<float>(100, 0.5f)) rank.report.wrong("float32");
          if (doubles != std::vector<double>(70, 0.5 + 0x1p-40)) rank.report.wrong("float64");
          if (halves != std::vector<std::uint16_t>(33, 0x4000)) rank.report.wrong("float16");
          if (pairs != std::vector<float>(20, 1.5f)) rank.report.wrong("complex64");
          std::size_t buckets = 0;
          anello_gradient_sync_bucket_count(sync, &buckets);
          if (buckets != 4) rank.report.wrong(buckets, " buckets");
          rank.ok(anello_gradient_sync_destroy(sync), "destroy");
        }) == "");
}

TEST_CASE("an overflow is seen by all ranks, and the loss scale follows") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          anello_gradient_sync_config_t config = small_buckets();
          config.loss_scale = 65536;
          config.loss_scale_interval = 3;
          model.ok(model.create(config), "create");
          double scale = 0;
          const double expected[] = {65536, 65536, 65536, 131072, 131072, 65536, 32768, 32768, 32768, 65536};
          for (int step = 0; step < 10; ++step) {
            model.ok(anello_gradient_sync_loss_scale(model.sync, &scale), "scale");
            model.require(scale == expected[step],
                          "step " + std::to_string(step) + ": the scale is " + std::to_string(scale));
            const bool bad = step == 4 || step == 5;
            model.begin();
            for (std::size_t i = model.size(); i-- > 0;) {
              model.compute(i, step);
              for (std::size_t e = 0; e < model.count(i); ++e) model.gradient(i)[e] *= float(scale);
              if (bad && i == 2 && rank.rank == 1) model.gradient(i)[29999] = step == 4 ? INFINITY : NAN;
              model.ready(i);
            }
            model.wait();
            int found = -1;
            model.ok(anello_gradient_sync_overflow(model.sync, &found), "overflow");
            model.require(found == (bad ? 1 : 0),
                          "step " + std::to_string(step) + ": overflow is " + std::to_string(found));
            if (!bad) model.expect_average(step);
          }
        }) == "");
}

TEST_CASE("ranks agree on an overflow in what one of them has no gradient of") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          std::vector<float> first(10, 1), second(10, INFINITY);
          const anello_tensor_t tensors[] = {{sizeof(anello_tensor_t), "first", nullptr, 10, ANELLO_FLOAT32},
                                             {sizeof(anello_tensor_t), "second", nullptr, 10, ANELLO_FLOAT32}};
          anello_gradient_sync_config_t config = ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER;
          config.find_unused = 1;
          config.check_overflow = 1;
          anello_gradient_sync_t sync = ANELLO_GRADIENT_SYNC_NULL;
          rank.ok(anello_gradient_sync_create(rank.comm, tensors, 2, &config, &sync), "create");
          rank.ok(anello_gradient_sync_begin(sync, 0), "begin");
          rank.ok(anello_gradient_sync_ready(sync, 0, first.data()), "ready");
          if (rank.rank == 0) rank.ok(anello_gradient_sync_ready(sync, 1, second.data()), "ready");
          rank.ok(anello_gradient_sync_wait(sync), "wait");
          int found = 0, used = 0;
          const void* data = nullptr;
          rank.ok(anello_gradient_sync_overflow(sync, &found), "overflow");
          if (found != 1) rank.report.wrong("rank ", rank.rank, " has seen no overflow");
          rank.ok(anello_gradient_sync_result(sync, 1, &data, &used), "result");
          if (used != 1 || data == nullptr || static_cast<const float*>(data)[9] != INFINITY)
            rank.report.wrong("rank ", rank.rank, ": the result is missing");
          rank.ok(anello_gradient_sync_destroy(sync), "destroy");
        }) == "");
}

TEST_CASE("the deadline is the config's, for all that a step waits for") {
  CHECK(run_ranks(
            2, "shm",
            [](const Rank& rank) {
    for (const int uneven : {0, 1}) {
      Model model(rank);
      anello_gradient_sync_config_t config = small_buckets();
      config.uneven = uneven;
      config.timeout_ms = uneven != 0 ? INT64_MAX : 15'000;  // the communicator's is far less
      model.ok(model.create(config), "create");
      model.step(0);
      if (rank.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      if (uneven != 0 && rank.rank == 1) {
        model.ok(anello_gradient_sync_join(model.sync, nullptr), "join");
        continue;
      }
      model.step(1);  // begins with rank 0's order of gradients
      if (uneven != 0) model.ok(anello_gradient_sync_join(model.sync, nullptr), "join");
    }
            },
            700) == "");
}

namespace {

// Sends the bucket itself, doubled, and halves it again.
struct Doubling {
  std::vector<std::size_t> started, finished;
  anello_result_t then = ANELLO_OK;

  static anello_result_t start(void* context, const anello_bucket_t* bucket, anello_comm_t comm,
                               anello_request_t* request) {
    auto* const it = static_cast<Doubling*>(context);
    it->started.push_back(bucket->index);
    auto* const data = static_cast<float*>(bucket->data);
    for (std::size_t e = 0; e < bucket->count; ++e) data[e] *= 2;
    return anello_iallreduce(ANELLO_IN_PLACE, data, bucket->count, bucket->dtype, ANELLO_SUM, comm, request);
  }
  static anello_result_t finish(void* context, const anello_bucket_t* bucket, anello_comm_t) {
    auto* const it = static_cast<Doubling*>(context);
    it->finished.push_back(bucket->index);
    auto* const data = static_cast<float*>(bucket->data);
    for (std::size_t e = 0; e < bucket->count; ++e) data[e] /= 2;
    return it->then;
  }
};

}  // namespace

TEST_CASE("a hook takes the place of a bucket's all-reduce") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          model.ok(model.create(small_buckets()), "create");
          Doubling doubling;
          anello_bucket_hook_t hook = ANELLO_BUCKET_HOOK_INITIALIZER;
          hook.context = &doubling;
          hook.start = Doubling::start;
          hook.finish = Doubling::finish;
          model.ok(anello_gradient_sync_set_hook(model.sync, &hook), "set_hook");
          for (int step = 0; step < 2; ++step) {
            doubling.started.clear();
            doubling.finished.clear();
            model.step(step);
            model.expect("hook", [&](std::size_t i, std::size_t e) { return sum_of(2, i, e, step); });
            std::size_t buckets = 0;
            anello_gradient_sync_bucket_count(model.sync, &buckets);
            model.require(
                doubling.started.size() == buckets && std::is_sorted(doubling.started.begin(), doubling.started.end()),
                "started out of order");
            model.require(doubling.finished == doubling.started, "finished others than started");
          }
          model.ok(anello_gradient_sync_set_hook(model.sync, nullptr), "set_hook");
          model.step(2);
          model.expect_average(2);

          doubling.then = ANELLO_ERR_RESOURCE;
          model.ok(anello_gradient_sync_set_hook(model.sync, &hook), "set_hook");
          // One rank's hook fails first, and the other may learn of that before its own does.
          model.begin();
          anello_result_t result = ANELLO_OK;
          for (std::size_t i = model.size(); i-- > 0 && result == ANELLO_OK;)
            result = anello_gradient_sync_ready(model.sync, i, nullptr);
          if (result == ANELLO_OK) result = anello_gradient_sync_wait(model.sync);
          model.require(result == ANELLO_ERR_RESOURCE || result == ANELLO_ERR_ABORTED,
                        std::string("a failed hook: ") + anello_result_name(result));
          model.fails(result, result, "a failed hook",
                      "bucket 0 (layer7 to layer5): its hook's finish ended with ANELLO_ERR_RESOURCE");
          model.fails(anello_gradient_sync_begin(model.sync, 0), result, "begin after it", "its hook's finish");
        }) == "");
}
