// A rank that has no memory for a call ends that call's communicator with an account of it, and nothing else.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

using namespace failures;

// Every operator new of the program, the library's too, refuses so many bytes and more.
namespace {
std::atomic<std::size_t> refused_from{~std::size_t{0}};
}

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return bytes < refused_from.load(std::memory_order_relaxed) ? std::malloc(bytes > 0 ? bytes : 1) : nullptr;
}
void* operator new(std::size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }  // else a sanitizer has its own
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace {

constexpr std::size_t kCount = 1'000'000;

// Rank 2 reduces the data from rank 3, for which it needs memory. `before` calls that need none may be in flight at
// that time.
const Role scanty("scanty", [](Rank& me) {
  const anello_comm_t comm = me.create();
  anello_comm_t other = ANELLO_COMM_NULL;
  me.check(anello_comm_dup(comm, &other), "dup", comm);
  const int before = me.number("before", 0);
  std::vector<float> input(kCount, 1.0f), output(kCount), few(std::size_t(before) + 1, 1.0f);
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_REDUCE;
  call.algorithm = "tree";
  call.dtype = ANELLO_FLOAT32;
  call.sendbuf = input.data();
  call.recvbuf = output.data();
  call.count = 1000;
  me.check(anello_post(comm, &call, nullptr), "a small reduce, for the lanes", comm);
  call.count = kCount;
  anello_request_t first = ANELLO_REQUEST_NULL;  // for which there is a table to be made
  me.check(anello_iallreduce(ANELLO_IN_PLACE, few.data(), 1, ANELLO_FLOAT32, ANELLO_SUM, other, &first), "iallreduce",
           other);
  me.check(anello_wait(&first, nullptr), "wait", other);
  me.check(anello_barrier(other), "barrier", other);
  if (me.rank() == 2) refused_from = 64 * 1024;
  std::vector<anello_request_t> requests(std::size_t(before) + 1, ANELLO_REQUEST_NULL);
  anello_result_t result = ANELLO_OK;
  for (int i = 0; i < before && result == ANELLO_OK; ++i) {  // rank 2 may fail while others are still here
    result = anello_iallreduce(ANELLO_IN_PLACE, &few[std::size_t(i)], 1, ANELLO_FLOAT32, ANELLO_SUM, comm,
                               &requests[std::size_t(i)]);
  }
  if (result == ANELLO_OK) result = anello_post(comm, &call, &requests.back());
  const anello_result_t waited = anello_wait_all(requests.size(), requests.data(), nullptr);
  if (result == ANELLO_OK) result = waited;
  // Who has only to send may be done before it hears of it.
  if (result == ANELLO_OK) result = anello_barrier(comm);
  me.report("result", result, comm);
  float one = 1;
  me.check(anello_allreduce(ANELLO_IN_PLACE, &one, 1, ANELLO_FLOAT32, ANELLO_SUM, other), "allreduce on the other",
           other);
  me.check(one == float(me.size()), "the other one's sum");
  refused_from = ~std::size_t{0};
  me.check(anello_comm_destroy(other), "destroy", other);
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

// Rank 0 has no memory for the table of its first request, and its buffer back at once. The others come later.
const Role unheld("unheld", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::vector<float> numbers(kCount, 1.0f);
  const anello_result_t first =
      anello_allreduce(ANELLO_IN_PLACE, numbers.data(), kCount, ANELLO_FLOAT32, ANELLO_MAX, comm);
  me.check(first, "a blocking one, for the lanes", comm);
  me.say("running");
  me.hear();
  anello_request_t request = ANELLO_REQUEST_NULL;
  if (me.rank() == 0) refused_from = 64 * 1024;
  anello_result_t result =
      anello_iallreduce(ANELLO_IN_PLACE, numbers.data(), kCount, ANELLO_FLOAT32, ANELLO_SUM, comm, &request);
  refused_from = ~std::size_t{0};
  if (result == ANELLO_OK) result = anello_wait(&request, nullptr);
  me.report("result", result, comm);
  if (me.rank() == 0) {
    Canary::fill(numbers.data(), numbers.size() * sizeof(float));
    me.hear();
    me.say("canary ", Canary::look(numbers.data(), numbers.size() * sizeof(float)));
  }
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

}  // namespace

TEST_CASE("a call without memory for its request leaves its buffer alone, and the others are told") {
  const std::string transport = GENERATE("shm", "tcp");
  INFO(transport);
  Ranks job(3, "unheld", transport);
  job.expect_all("running");
  job.tell(0, "go");
  const Line refused = job.expect(0, "result");
  INFO(refused.text);
  CHECK(refused.begins("result ANELLO_ERR_RESOURCE"));
  for (const int rank : {1, 2}) {
    job.tell(rank, "go");
    const Line line = job.expect(rank, "result");
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("result ANELLO_ERR_ABORTED rank 0 (host"));
    CHECK(line.has("no memory for a request"));
  }
  job.tell(0, "look");
  CHECK(job.next(0).text == "canary intact");
  job.expect_all("destroyed ANELLO_ERR_ABORTED");
  job.finish();
}

TEST_CASE("a rank without memory for a call is named to all, and other communicators go on") {
  const std::string transport = GENERATE("shm", "tcp");
  const int before = GENERATE(0, 40);
  INFO(transport << ", behind " << before << " others");
  Ranks job(4, "scanty", transport, {{"before", std::to_string(before)}});
  for (int rank = 0; rank < 4; ++rank) {
    const Line line = job.expect(rank, "result");
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("result ANELLO_ERR_RESOURCE"));
    CHECK(line.has("rank 2 (host"));
  }
  job.expect_all("destroyed ANELLO_ERR_RESOURCE");
  job.finish();
}
