#include "schedule/parts.h"
#include "schedule/predict.h"
#include "schedule/print.h"
#include "schedule/simulate.h"
#include "schedule/svg.h"
#include "schedule/totals.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <algorithm>

using namespace anello::schedule;

namespace {

std::size_t occurrences(const std::string& of, const std::string& in) {
  std::size_t count = 0;
  for (std::size_t at = in.find(of); at != std::string::npos; at = in.find(of, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a step reads as a sentence with its operands in order") {
  const Slice in{Buffer::input, 4, 4};
  const Slice out{Buffer::output, 0, 4};
  CHECK(describe(Step{Kind::send, false, 3, {}, in}) == "send in[4..8) to rank 3");
  CHECK(describe(Step{Kind::recv_reduce, false, 1, out, in}) == "recv_reduce out[0..4) = in[4..8) + rank 1");
  CHECK(describe(Step{Kind::recv_reduce, true, 1, out, in}) == "recv_reduce out[0..4) = rank 1 + in[4..8)");
  CHECK(describe(Step{Kind::reduce, false, -1, out, in}) == "reduce out[0..4) = out[0..4) + in[4..8)");
  CHECK(describe(Step{Kind::reduce, true, -1, out, in}) == "reduce out[0..4) = in[4..8) + out[0..4)");
  const Slice theirs{Buffer::input, 4, 4, 2};
  const Slice everywhere{Buffer::output, 0, 4, kEach};
  CHECK(describe(Step{Kind::copy, false, -1, out, theirs}) == "copy out[0..4) = rank 2's in[4..8)");
  CHECK(describe(Step{Kind::reduce_ranks, false, -1, everywhere, {Buffer::input, 0, 4, kEach}}) ==
        "reduce all ranks' out[0..4) = all ranks' in[0..4)");
  CHECK(describe(Step{Kind::barrier, false, -1, {}, {}}) == "barrier");
}

TEST_CASE("the ring's grid is the one in the books") {
  const Call call = a_call(Collective::allreduce, 3);
  const Topology topology = meeting(3);
  const std::string drawn = grid(call, topology, make_all(*find(Collective::allreduce, "ring"), call, topology, 3));
  CHECK(drawn ==
        "  slot  rank 0          rank 1          rank 2\n"
        "     0  > 1  in[0..1)   > 2  in[1..2)   > 0  in[2..3)\n"
        "        + 2  out[2..3)  + 0  out[0..1)  + 1  out[1..2)\n"
        "     1  > 1  out[2..3)  > 2  out[0..1)  > 0  out[1..2)\n"
        "        + 2  out[1..2)  + 0  out[2..3)  + 1  out[0..1)\n"
        "     2  > 1  out[1..2)  > 2  out[2..3)  > 0  out[0..1)\n"
        "        < 2  out[0..1)  < 0  out[1..2)  < 1  out[2..3)\n"
        "     3  > 1  out[0..1)  > 2  out[1..2)  > 0  out[2..3)\n"
        "        < 2  out[2..3)  < 0  out[0..1)  < 1  out[1..2)\n");
}

TEST_CASE("a table names for each step what it waits for") {
  const Call call = a_call(Collective::allreduce, 2);
  const Topology topology = meeting(2);
  const std::string drawn = table(make_all(*find(Collective::allreduce, "ring"), call, topology, 1));
  CHECK(drawn ==
        "rank 0: 4 steps\n"
        "     0  send in[0..1) to rank 1\n"
        "     1  recv_reduce out[1..2) = rank 1 + in[1..2)\n"
        "     2  send out[1..2) to rank 1                    after 1\n"
        "     3  recv out[0..1) = rank 1\n"
        "\n"
        "rank 1: 4 steps\n"
        "     0  send in[1..2) to rank 0\n"
        "     1  recv_reduce out[0..1) = rank 0 + in[0..1)\n"
        "     2  send out[0..1) to rank 0                    after 1\n"
        "     3  recv out[1..2) = rank 0\n"
        "\n");
}

TEST_CASE("a drawing has a box for every step but sends, and an arrow for every message") {
  for (const Algorithm& algorithm : catalog())
    for (Call call : calls(algorithm.collective, 4)) {
      const Topology topology = meeting(4);
      if (call.count > 5 || !fits_within_reach(algorithm, call, topology)) continue;
      const std::vector<Schedule> schedules = make_all(algorithm, call, topology, 2);
      std::size_t sends = 0;
      std::size_t others = 0;
      for (const Schedule& schedule : schedules)
        for (const Step& step : schedule.steps) ++(step.kind == Kind::send ? sends : others);
      const std::string drawn = svg({{call}, topology.size}, topology, schedules);
      INFO(algorithm.name << " " << describe(call));
      REQUIRE(occurrences("<path d='M", drawn) == 2 * sends);
      REQUIRE(occurrences("height='24'", drawn) == others);
      REQUIRE(occurrences("nan", drawn) == 0);
      REQUIRE(drawn.ends_with("</svg>\n"));
    }
}

TEST_CASE("a drawing says where in the whole vector the parts of ranks lie") {
  for (const Collective collective : {Collective::allgatherv, Collective::gatherv, Collective::scatterv,
                                      Collective::reduce_scatterv, Collective::alltoallv}) {
    const Counts counts = {3, 1, 4};
    const Calls calls(calls_of(a_call(collective, known_total(collective, counts)), counts), 3);
    const std::vector<Schedule> schedules =
        make_all(*choose(calls.shared(), meeting(3)).algorithm, calls, meeting(3), 100);
    const std::string drawn = svg(calls, meeting(3), schedules);
    INFO(name(collective));
    CHECK(occurrences("4–7", drawn) > 0);
    CHECK(occurrences("nan", drawn) == 0);
    CHECK(occurrences("token", drawn) == 0);
  }
}

TEST_CASE("the prediction is what a ring costs on paper") {
  // 4 ranks, 4 equal blocks, one chunk: 6 messages one after the other, 3 of them reduced.
  const Call call = a_call(Collective::allreduce, 400);
  const Topology topology = meeting(4);
  const std::vector<Schedule> schedules = make_all(*find(Collective::allreduce, "ring"), call, topology, 100);
  Cost cost;
  cost.latency_s = 7;
  cost.message_s = 2;
  cost.byte_s = 0.5;
  cost.reduce_byte_s = 0.25;
  CHECK(predict(call, topology, schedules, cost).seconds == Approx(6 * (7 + 2 + 50) + 3 * 25));
  const std::vector<Schedule> chunked = make_all(*find(Collective::allreduce, "ring"), call, topology, 10);
  // The sender's port is never idle for long: reducing and latency hide behind the next chunks.
  CHECK(predict(call, topology, chunked, cost).seconds < 6 * (10 * 7.0) + 30);
}

TEST_CASE("the prediction of a tree is what its root must send") {
  const Call call = a_call(Collective::broadcast, 3200);
  Cost cost;
  cost.byte_s = 1;
  for (const int children : {1, 2, 3, 4}) {
    const Topology topology = meeting(1 << children);
    const std::vector<Schedule> schedules = make_all(*find(Collective::broadcast, "tree"), call, topology, 100);
    const double bytes = 3200.0 * static_cast<double>(call.element_bytes);
    // The children's chunks leave in turn, so that only the last one's way down comes after them.
    const double last_s = children * bytes / 32;
    CHECK(predict(call, topology, schedules, cost).seconds >= children * bytes);
    CHECK(predict(call, topology, schedules, cost).seconds <= children * bytes + last_s);
  }
}

TEST_CASE("the prediction over peers' memory is what the bytes cost on paper") {
  // 4 ranks, 4 blocks of 128 bytes.
  Call call = a_call(Collective::allreduce, 512);
  call.reach = Reach::store;
  const Topology topology = meeting(4);
  Cost cost;
  cost.latency_s = 7;
  cost.message_s = 2;
  cost.memory_byte_s = 0.5;
  const auto seconds = [&](const char* name) {
    return predict(call, topology, make_all(*find(Collective::allreduce, name), call, topology, 1), cost).seconds;
  };
  const double barrier = 7 + 2;
  CHECK(seconds("direct") == Approx(2 + 8 * 128 * 0.5 + barrier));
  CHECK(seconds("attach") == Approx(2 + 5 * 128 * 0.5 + barrier + 3 * (2 + 2 * 128 * 0.5) + barrier));
}

TEST_CASE("totals count what is loaded from and stored into peers' buffers") {
  Call call = a_call(Collective::allreduce, 512);
  call.reach = Reach::store;
  const auto of = [&](const char* name) {
    const Algorithm& algorithm = *find(Collective::allreduce, name);
    return totals(call, 4, 1, algorithm.make(call, meeting(4), 1, 1));
  };
  CHECK(of("direct").received == 3 * 128);
  CHECK(of("direct").sent == 3 * 128);
  CHECK(of("direct").reduced == 3 * 128);
  CHECK(of("attach").received == 2 * 3 * 128);
  CHECK(of("attach").sent == 0);
  CHECK(of("attach").copied == 0);
  CHECK(of("attach").messages == 0);
}
