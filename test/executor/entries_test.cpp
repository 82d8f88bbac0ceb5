// A rank receives lines that enter a call over peers' memory in a way that the call does not have.
#include "executor/rank_thread.h"
#include "transports/shm/transport.h"

using namespace anello;
using namespace anello::test;
using executor::LineKind;

namespace {

// The error of rank 0's all-reduce over two ranks whose buffers could be read, behind a line of that kind from rank 1.
Error error_behind(LineKind kind) {
  LocalJobs jobs(2, transport::bit_of("shm"));
  RankThread rank(jobs, 0, transport::bit_of("shm"),
                  [](const memory::Arena& arena, int) { return transport::make_shm(arena); });
  std::vector<float> data(1000, 1);
  schedule::Call call;
  call.collective = schedule::Collective::allreduce;
  call.count = data.size();
  call.element_bytes = sizeof(float);
  call.in_place = true;
  schedule::Topology topology;
  topology.size = 2;
  topology.board = true;
  topology.board_bytes = executor::Board::capacity();
  auto plans = std::make_shared<executor::Plans>();
  const auto plan_of = [&](const char* algorithm, schedule::Reach reach) {
    call.reach = reach;
    return executor::Plan::of(schedule::find(call.collective, algorithm)->make(call, topology, 0, data.size()));
  };
  plans->add(schedule::Reach::none, plan_of("ring", schedule::Reach::none));
  plans->add(schedule::Reach::read, plans->at(schedule::Reach::none));
  plans->add(schedule::Reach::store, plan_of("direct", schedule::Reach::store));
  executor::Operation* const operation = rank.context().acquire(rank.group());
  operation->kind = ANELLO_ALLREDUCE;
  operation->dtype = ANELLO_FLOAT32;
  operation->op = ANELLO_SUM;
  operation->count = data.size();
  operation->element_bytes = sizeof(float);
  operation->reducer = &kernels::reducer(ANELLO_FLOAT32, ANELLO_SUM);
  operation->timeout_ns = 1'000'000'000;
  operation->output = reinterpret_cast<std::byte*>(data.data());
  operation->input = operation->output;
  operation->input_bytes = operation->output_bytes = data.size() * sizeof(float);
  operation->plans = plans;
  operation->plan = plans->at(schedule::Reach::none);
  recorder::CallRecord record;
  record.kind = ANELLO_ALLREDUCE;
  record.dtype = ANELLO_FLOAT32;
  record.count = data.size();
  rank.context().post(*operation, record);
  // The other rank's line is like this one's, except for its kind. Two ranks that share no processor use every second
  // line.
  const memory::BoardLine& own = jobs.arena(0).board(0, 0).line[2];
  memory::BoardLine& line = jobs.arena(0).board(0, 1).line[2];
  line.digest = own.digest;
  line.kind = static_cast<std::uint8_t>(kind);
  line.number.store(own.number.load());
  return rank.finish(operation);
}

}  // namespace

TEST_CASE("the error names a rank that enters a call in a way that the call does not have") {
  for (const LineKind kind : {LineKind::payload, LineKind::staged, LineKind::sends, LineKind::sends_for_speed}) {
    const Error error = error_behind(kind);
    INFO(error.text());
    CHECK(error.code() == ANELLO_ERR_CORRUPT);
    CHECK(error.text().find("rank 1") != std::string::npos);
  }
}

TEST_CASE("a rank takes no line for one of another round") {
  const Error error = error_behind(LineKind::agree);
  INFO(error.text());
  CHECK(error.code() == ANELLO_ERR_TIMEOUT);  // the service threads would compare the calls; here there are none
}
