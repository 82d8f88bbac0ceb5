// Sizes, factors and statistics: what stands in the columns.
#include "perf/collective.h"
#include "perf/options.h"
#include "perf/statistics.h"
#include "support/catch.h"

#include <vector>

using namespace perf;

TEST_CASE("quantiles are by the nearest rank") {
  const std::vector<double> values{5, 1, 4, 2, 3};
  CHECK(quantile(values, 0) == 1);
  CHECK(median(values) == 3);
  CHECK(quantile(values, 0.99) == 5);
  CHECK(quantile(values, 1) == 5);
  CHECK(median({2, 1}) == 1);
  CHECK(median({}) == 0);
}

TEST_CASE("variation is the standard deviation over the mean") {
  CHECK(variation({}) == 0);
  CHECK(variation({7}) == 0);
  CHECK(variation({3, 3, 3}) == 0);
  CHECK(variation({1, 3}) == Approx(0.7071).epsilon(1e-4));
}

TEST_CASE("bus bandwidth has nccl-tests' factors") {
  CHECK(bus_factor(Collective::allreduce, 4) == Approx(1.5));
  CHECK(bus_factor(Collective::allreduce, 1) == Approx(0));
  CHECK(bus_factor(Collective::allgather, 4) == Approx(0.75));
  CHECK(bus_factor(Collective::reduce_scatter, 2) == Approx(0.5));
  CHECK(bus_factor(Collective::broadcast, 8) == 1);
  CHECK(bus_factor(Collective::sendrecv, 8) == 1);
  CHECK(bus_factor(Collective::reduce, 8) == 1);
  for (const Collective parts : {Collective::gather, Collective::scatter, Collective::alltoall})
    CHECK(bus_factor(parts, 4) == Approx(0.75));
}

TEST_CASE("a case has the elements that fit the size, and says the size it has") {
  Case of;
  of.dtype = ANELLO_FLOAT32;
  CHECK(sized(of, 11, 3).count == 2);
  CHECK(sized(of, 11, 3).bytes == 8);
  of.collective = Collective::allgather;
  const Case gather = sized(of, 100, 3);
  CHECK(gather.count == 8);
  CHECK(gather.bytes == 96);
  CHECK(send_count(gather, 3) == 8);
  CHECK(receive_count(gather, 3) == 24);
  of.collective = Collective::reduce_scatter;
  CHECK(send_count(sized(of, 100, 3), 3) == 24);
  CHECK(receive_count(sized(of, 100, 3), 3) == 8);
  of.collective = Collective::alltoall;
  CHECK(send_count(sized(of, 100, 3), 3) == 24);
  CHECK(receive_count(sized(of, 100, 3), 3) == 24);
}

TEST_CASE("sizes grow by a factor or by steps, and end") {
  Options options;
  options.min_bytes = 8;
  options.max_bytes = 100;
  options.factor = 2;
  CHECK(options.sizes() == std::vector<std::size_t>{8, 16, 32, 64});
  options.factor = 0;
  options.step_bytes = 40;
  CHECK(options.sizes() == std::vector<std::size_t>{8, 48, 88});
  options.factor = 1.01;  // does not move a small size
  CHECK(options.sizes() == std::vector<std::size_t>{8});
  options.collective = Collective::barrier;
  CHECK(options.sizes() == std::vector<std::size_t>{0});
}

TEST_CASE("collectives are known by nccl-tests' names and by the header's") {
  CHECK(collective_named("all_reduce") == Collective::allreduce);
  CHECK(collective_named("reduce_scatter_block") == Collective::reduce_scatter);
  CHECK(collective_named("all_to_all") == Collective::alltoall);
  CHECK(!collective_named("all_to_some"));
  for (const std::string& word : collective_names()) CHECK(name(*collective_named(word)) == word);
}
