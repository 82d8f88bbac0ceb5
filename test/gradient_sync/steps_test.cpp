#include "gradient_sync/synced_ranks.h"
#include "support/catch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <numeric>
#include <random>
#include <thread>

using namespace anello::test;

namespace {

std::vector<std::vector<std::size_t>> plan_of(anello_gradient_sync_t sync) {
  std::vector<std::vector<std::size_t>> plan;
  std::size_t buckets = 0;
  anello_gradient_sync_bucket_count(sync, &buckets);
  for (std::size_t b = 0; b < buckets; ++b) {
    anello_bucket_t bucket = ANELLO_BUCKET_INITIALIZER;
    anello_gradient_sync_bucket(sync, b, &bucket);
    plan.emplace_back(bucket.parameters, bucket.parameters + bucket.parameter_count);
  }
  return plan;
}

}  // namespace

TEST_CASE("gradients become the average of all ranks, whatever the order on each") {
  for (const char* transports : {"inproc", "shm", "tcp"}) {
    for (const int ranks : {1, 2, 4}) {
      for (const int views : {0, 1}) {
        for (const int rebuild : {0, 1}) {
          std::vector<std::vector<std::vector<std::size_t>>> plans(static_cast<std::size_t>(ranks));
          std::vector<std::size_t> came_to_rank_0;
          CHECK(run_ranks(ranks, transports, [&](const Rank& rank) {
                  Model model(rank);
                  anello_gradient_sync_config_t config = small_buckets();
                  config.views = views;
                  config.rebuild = rebuild;
                  model.ok(model.create(config), "create");
                  for (int step = 0; step < 4; ++step) {
                    std::vector<std::size_t> order(model.size());
                    std::iota(order.begin(), order.end(), std::size_t{0});
                    std::mt19937 random(unsigned(rank.rank * 100 + step));
                    std::shuffle(order.begin(), order.end(), random);
                    if (step == 0 && rank.rank == 0) came_to_rank_0 = order;
                    model.begin();
                    for (const std::size_t i : order) {
                      model.compute(i, step);
                      model.ready(i);
                    }
                    model.wait();
                    model.expect_average(step);
                  }
                  plans[std::size_t(rank.rank)] = plan_of(model.sync);
                }) == "");
          for (const auto& plan : plans) CHECK(plan == plans[0]);
          std::vector<std::size_t> planned;
          for (const auto& bucket : plans[0]) planned.insert(planned.end(), bucket.begin(), bucket.end());
          CHECK(plans[0].size() > 2);
          std::vector<std::size_t> backwards(counts().size());
          std::iota(backwards.rbegin(), backwards.rend(), std::size_t{0});
          CHECK(planned == (rebuild != 0 ? came_to_rank_0 : backwards));
        }
      }
    }
  }
}

TEST_CASE("gradients may become ready on any threads") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank, std::vector<std::size_t>(64, 1500));
          model.ok(model.create(small_buckets()), "create");
          for (int step = 0; step < 20; ++step) {
            model.begin();
            std::vector<std::thread> threads;
            for (std::size_t t = 0; t < 4; ++t) {
              threads.emplace_back([&, t] {
                for (std::size_t i = model.size(); i-- > 0;) {
                  if (i % 4 != t) continue;
                  model.compute(i, step);
                  model.ready(i);
                }
              });
            }
            for (std::thread& thread : threads) thread.join();
            model.wait();
            model.expect_average(step);
          }
        }) == "");
}

TEST_CASE("a bucket is sent before the others are full") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          model.ok(model.create(small_buckets()), "create");
          model.begin();
          std::size_t buckets = 0;
          anello_gradient_sync_bucket_count(model.sync, &buckets);
          anello_bucket_t first = ANELLO_BUCKET_INITIALIZER;
          anello_gradient_sync_bucket(model.sync, 0, &first);
          for (std::size_t at = 0; at < first.parameter_count; ++at) {
            model.compute(first.parameters[at], 0);
            model.ready(first.parameters[at]);
          }
          anello_gradient_sync_bucket(model.sync, 0, &first);
          model.require(first.start_ns > 0, "the first bucket has not started");
          for (std::size_t i = model.size(); i-- > 0;) {
            if (std::find(first.parameters, first.parameters + first.parameter_count, i) !=
                first.parameters + first.parameter_count)
              continue;
            model.compute(i, 0);
            model.ready(i);
          }
          model.wait();
          model.expect_average(0);
        }) == "");
}

TEST_CASE("test tells when the results are there") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          model.ok(model.create(small_buckets()), "create");
          for (int step = 0; step < 5; ++step) {
            model.begin();
            int done = 1;
            model.ok(anello_gradient_sync_test(model.sync, &done), "test");
            model.require(done == 0, "done before anything was ready");
            for (std::size_t i = model.size(); i-- > 0;) {
              model.compute(i, step);
              model.ready(i);
            }
            while (done == 0) model.ok(anello_gradient_sync_test(model.sync, &done), "test");
            model.expect_average(step);
          }
        }) == "");
}

TEST_CASE("local steps leave gradients to the caller") {
  for (const int views : {0, 1}) {
    CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
            Model model(rank);
            anello_gradient_sync_config_t config = small_buckets();
            config.views = views;
            model.ok(model.create(config), "create");
            const auto accumulate = [&](int step) {
              for (std::size_t i = 0; i < model.size(); ++i) {
                float* const to = model.gradient(i);
                for (std::size_t e = 0; e < model.count(i); ++e)
                  to[e] = (step % 3 == 0 ? 0 : to[e]) + gradient_of(rank.rank, i, e, step);
                model.ready(i);
              }
            };
            for (int step = 0; step < 9; ++step) {
              model.begin(step % 3 < 2 ? ANELLO_GRADIENT_SYNC_LOCAL : 0);
              accumulate(step);
              if (step % 3 < 2) continue;
              model.wait();
              model.expect("step " + std::to_string(step), [&](std::size_t i, std::size_t e) {
                return (sum_of(2, i, e, step - 2) + sum_of(2, i, e, step - 1) + sum_of(2, i, e, step)) / 2;
              });
            }
            anello_gradient_sync_statistics_t statistics = ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER;
            model.ok(anello_gradient_sync_query(model.sync, &statistics), "query");
            model.require(statistics.steps == 3 && statistics.local_steps == 6, "counted other steps");
          }) == "");
  }
}

TEST_CASE("what local steps have accumulated goes, also where the last step adds nothing") {
  for (const int variant : {0, 1, 2, 3}) {
    const int fixed = variant % 2, views = variant / 2;
    CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
            Model model(rank);
            anello_gradient_sync_config_t config = small_buckets();
            config.find_unused = fixed == 0;
            config.static_graph = fixed;
            config.views = views;
            model.ok(model.create(config), "create");
            for (int step = 0; step < 3; ++step) {
              model.begin(ANELLO_GRADIENT_SYNC_LOCAL);
              for (std::size_t i = 0; i < model.size(); ++i) {
                model.compute(i, step);
                model.ready(i);
              }
              // Forwards: the second step's begin makes other buckets, in the place of those where views lie.
              model.begin();
              for (std::size_t i = 0; i < model.size(); ++i) {
                if (i != 2) model.ready(i);
              }
              model.wait();
              model.expect_average(step);
              int used = 0;
              anello_gradient_sync_result(model.sync, 2, nullptr, &used);
              model.require(used == 1, "layer 2 is unused");
            }
          }) == "");
  }
}

TEST_CASE("copies are counted: each gradient in and out, with views none") {
  struct Case {
    int views;
    anello_dtype_t wire;
    double prescale;
    std::uint64_t copies;
  };
  for (const Case& each :
       {Case{0, ANELLO_FLOAT32, 1, 2}, Case{0, ANELLO_FLOAT32, 0.5, 2}, Case{1, ANELLO_FLOAT32, 1, 0},
        Case{1, ANELLO_FLOAT32, 0.5, 0}, Case{0, ANELLO_BFLOAT16, 1, 2}, Case{1, ANELLO_BFLOAT16, 1, 2}}) {
    CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
            Model model(rank);
            anello_gradient_sync_config_t config = small_buckets();
            config.views = each.views;
            config.wire = each.wire;
            config.prescale = each.prescale;
            config.check_overflow = 1;
            model.ok(model.create(config), "create");
            std::uint64_t bytes = 0;
            for (std::size_t i = 0; i < model.size(); ++i) bytes += model.count(i) * sizeof(float);
            for (int step = 0; step < 3; ++step) model.step(step);
            anello_gradient_sync_statistics_t statistics = ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER;
            model.ok(anello_gradient_sync_query(model.sync, &statistics), "query");
            model.require(
                statistics.copied_bytes == 3 * each.copies * bytes,
                "copied " + std::to_string(statistics.copied_bytes) + " bytes of " + std::to_string(bytes) + " a step");
          }) == "");
  }
}

TEST_CASE("weights become rank root's") {
  CHECK(run_ranks(3, "shm", [](const Rank& rank) {
          Model model(rank);
          model.ok(model.create(small_buckets()), "create");
          std::vector<std::vector<float>> weights;
          std::vector<std::int64_t> steps(5, rank.rank);
          for (const std::size_t count : {5, 20000, 0, 700, 400000, 3})
            weights.emplace_back(std::size_t(count), float(rank.rank));
          std::vector<anello_tensor_t> tensors;
          for (auto& one : weights)
            tensors.push_back({sizeof(anello_tensor_t), nullptr, one.data(), one.size(), ANELLO_FLOAT32});
          tensors.push_back({sizeof(anello_tensor_t), "steps", steps.data(), steps.size(), ANELLO_INT64});
          model.ok(anello_gradient_sync_broadcast(model.sync, tensors.data(), tensors.size(), 1), "broadcast");
          for (const auto& one : weights)
            model.require(std::all_of(one.begin(), one.end(), [](float x) { return x == 1; }),
                          "a weight is not rank 1's");
          model.require(steps == std::vector<std::int64_t>(5, 1), "the steps are not rank 1's");
          model.step(0);
          model.expect_average(0);
        }) == "");
}

TEST_CASE("what is sent after the last gradient is not hidden by anything") {
  CHECK(run_ranks(2, "shm", [](const Rank& rank) {
          Model model(rank);
          const anello_gradient_sync_config_t one_bucket = ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER;
          model.ok(model.create(one_bucket), "create");
          for (int step = 0; step < 50; ++step) model.step(step);
          anello_gradient_sync_statistics_t statistics = ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER;
          model.ok(anello_gradient_sync_query(model.sync, &statistics), "query");
          model.require(statistics.buckets == 1, "there is more than one bucket");
          // From the one call to the other there may be some time.
          model.require(statistics.communicating_ns > 0 && statistics.waiting_ns > statistics.communicating_ns / 2,
                        "waited " + std::to_string(statistics.waiting_ns) + " ns of " +
                            std::to_string(statistics.communicating_ns));
        }) == "");
}

TEST_CASE("a summary says what was sent and who was slow") {
  // Rank 0 computes while rank 1 does, which goes on for a fifth of that time: so it takes longer, whatever interrupts
  // either of them.
  std::array<std::promise<void>, 3> begun, computed;
  CHECK(run_ranks(2, "shm", [&](const Rank& rank) {
          Model model(rank);
          const auto await = [&](std::promise<void>& other) {
            model.require(other.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready,
                          "the other rank does not come");
          };
          anello_gradient_sync_config_t config = small_buckets();
          config.rebuild = 0;  // else a step's begin would wait for the other rank
          model.ok(model.create(config), "create");
          char line[512];
          model.ok(anello_gradient_sync_summary(model.sync, line, sizeof line), "summary");
          model.require(std::string(line).find("no step") != std::string::npos,
                        std::string("summary without steps: ") + line);
          for (std::size_t step = 0; step < begun.size(); ++step) {
            if (rank.rank == 0) await(begun[step]);
            model.begin();
            const auto begin = std::chrono::steady_clock::now();
            if (rank.rank == 1) {
              begun[step].set_value();
              await(computed[step]);
              std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin) / 5);
            }
            for (std::size_t i = model.size(); i-- > 0;) model.ready(i);
            if (rank.rank == 0) computed[step].set_value();
            model.wait();
          }
          model.ok(anello_gradient_sync_summary(model.sync, line, sizeof line), "summary");
          model.require(std::string(line).find("rank 1 computes longest") != std::string::npos,
                        std::string("summary: ") + line);
          char short_line[10];
          model.ok(anello_gradient_sync_summary(model.sync, short_line, sizeof short_line), "summary");
          model.require(std::string(short_line) == std::string(line).substr(0, 9),
                        "a short summary is not the beginning");
        }) == "");
}
