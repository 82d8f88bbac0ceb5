#include "gradient_sync/bucket_plan.h"
#include "support/catch.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace anello::gradient_sync;

namespace {

std::vector<std::size_t> parameters_of(const BucketPlan& plan) {
  std::vector<std::size_t> all;
  for (const Part& part : plan.parts) all.push_back(part.parameter);
  return all;
}

}  // namespace

TEST_CASE("a bucket closes once it has enough, the first one early") {
  // Of 16 elements, a cache line, each.
  const std::vector<Sized> six(6, {16, ANELLO_FLOAT32});
  const auto plans = plan_buckets(six, {5, 4, 3, 2, 1, 0}, 64, 128);
  REQUIRE(plans.size() == 4);
  CHECK(parameters_of(plans[0]) == std::vector<std::size_t>{5});
  CHECK(parameters_of(plans[1]) == std::vector<std::size_t>{4, 3});
  CHECK(parameters_of(plans[2]) == std::vector<std::size_t>{2, 1});
  CHECK(parameters_of(plans[3]) == std::vector<std::size_t>{0});
}

TEST_CASE("buckets are numbered by the parameter that fills them") {
  const std::vector<Sized> mixed = {
      {16, ANELLO_FLOAT32}, {8, ANELLO_FLOAT64}, {16, ANELLO_FLOAT32}, {32, ANELLO_FLOAT16}};
  // The float64 one is open from the second on and full at the end; float16's is full at once.
  const auto plans = plan_buckets(mixed, {0, 1, 2, 3}, 1 << 20, 1 << 20);
  REQUIRE(plans.size() == 3);
  CHECK(plans[0].dtype == ANELLO_FLOAT64);
  CHECK(parameters_of(plans[1]) == std::vector<std::size_t>{0, 2});
  CHECK(plans[2].dtype == ANELLO_FLOAT16);
}

TEST_CASE("every parameter has a place of its own, on a cache line") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Sized> sizes;
    const anello_dtype_t types[] = {ANELLO_FLOAT32, ANELLO_FLOAT64, ANELLO_BFLOAT16, ANELLO_COMPLEX128};
    const std::size_t parameters = random() % 40;
    for (std::size_t i = 0; i < parameters; ++i) sizes.push_back({random() % 500, types[random() % 4]});
    std::vector<std::size_t> order(parameters);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t first = 1 + random() % 4000, other = 1 + random() % 4000;
    std::vector<int> seen(parameters);
    std::vector<bool> begun(64);
    std::size_t filled_by = 0, number = 0;
    for (const BucketPlan& plan : plan_buckets(sizes, order, first, other)) {
      std::size_t end = 0;
      for (const Part& part : plan.parts) {
        ++seen[part.parameter];
        REQUIRE(sizes[part.parameter].dtype == plan.dtype);
        REQUIRE(part.offset >= end);
        REQUIRE(part.offset * anello_dtype_size(plan.dtype) % kAlignment == 0);
        end = part.offset + sizes[part.parameter].count;
      }
      REQUIRE(end <= plan.count);
      // All but its last parameter were not enough.
      const std::size_t limit = begun[std::size_t(plan.dtype)] ? other : first;
      REQUIRE((plan.parts.back().offset == 0 || plan.parts.back().offset * anello_dtype_size(plan.dtype) < limit));
      begun[std::size_t(plan.dtype)] = true;
      const auto last = std::size_t(std::find(order.begin(), order.end(), plan.parts.back().parameter) - order.begin());
      REQUIRE((number++ == 0 || last > filled_by));
      filled_by = last;
    }
    REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}
