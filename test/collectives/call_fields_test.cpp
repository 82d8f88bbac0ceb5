// What anello_call_t has beyond the arguments of the functions: a deadline, an algorithm, a label of one call.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

anello_call_t sum_of(std::vector<std::int32_t>& values, const char* algorithm = nullptr, const char* label = nullptr) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLREDUCE;
  call.dtype = ANELLO_INT32;
  call.sendbuf = ANELLO_IN_PLACE;
  call.recvbuf = values.data();
  call.count = values.size();
  call.algorithm = algorithm;
  call.label = label;
  return call;
}

anello_call_t message(anello_kind_t kind, std::vector<std::int32_t>& values, int peer) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  call.dtype = ANELLO_INT32;
  call.sendbuf = call.recvbuf = values.data();
  call.count = values.size();
  call.peer = peer;
  call.tag = 5;
  return call;
}

void expect_text(const Rank& me, anello_comm_t comm, const std::string& part) {
  const std::string text = anello_last_error(comm);
  if (text.find(part) == std::string::npos) me.report.wrong("rank ", me.rank, ": '", part, "' is not in: ", text);
}

class Watch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

TEST_CASE("calls that differ in their algorithm alone follow each other, small and large") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(3, transports.c_str(), [](const Rank& me) {
          for (int round = 0; round < 3; ++round) {
            for (const std::size_t count : {1, 40, 50'000}) {
              for (const char* algorithm :
                   {static_cast<const char*>(nullptr), "ring", "doubling", "tree", "pairwise", "ring"}) {
                std::vector<std::int32_t> values(count, me.rank + round);
                // Not the literal: what counts is what it says, and that only during the call.
                std::string spelled = algorithm == nullptr ? "" : algorithm;
                const anello_call_t call = sum_of(values, algorithm == nullptr ? nullptr : spelled.c_str());
                anello_request_t request = ANELLO_REQUEST_NULL;
                me.ok(anello_post(me.comm, &call, round == 1 ? &request : nullptr), "post");
                spelled.assign(spelled.size(), 'x');
                me.ok(anello_wait(&request, nullptr), "wait");
                if (values != std::vector<std::int32_t>(count, 3 + 3 * round))
                  me.report.wrong("wrong sum by ", algorithm);
              }
            }
          }
        }) == "");
}

TEST_CASE("ranks that ask for different algorithms are told so, by name and label") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  const auto count = GENERATE(std::size_t(2), std::size_t(20'000));
  const auto other = GENERATE(as<std::string>(), "tree", "");
  INFO(transports << " " << count << " " << other);
  CHECK(run_ranks(2, transports.c_str(), [&](const Rank& me) {
          std::vector<std::int32_t> values(count, 1);
          const anello_call_t call = me.rank == 0 ? sum_of(values, "ring", "gradients of layer 3")
                                                  : sum_of(values, other.empty() ? nullptr : other.c_str());
          anello_result_t result = anello_post(me.comm, &call, nullptr);
          // A rank that needed nothing more of the other one hears of it in its next call.
          if (result == ANELLO_OK) result = anello_barrier(me.comm);
          me.fails(result, ANELLO_ERR_MISMATCH, "ring on rank 0, '" + other + "' on rank 1");
          expect_text(me, me.comm, "int32, sum, by ring) \"gradients of layer 3\"");
          expect_text(me, me.comm, other.empty() ? "int32, sum)" : "int32, sum, by tree)");
        }) == "");
}

TEST_CASE("an algorithm that does not fit is refused with those that do, and harms nothing else") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          std::vector<std::int32_t> values(100'000, 1);
          for (const char* algorithm : {"exchange", "dissemination", "rign", ""}) {
            anello_call_t call = sum_of(values, algorithm, "mine");
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.fails(anello_post(me.comm, &call, nullptr), ANELLO_ERR_ARGUMENT, algorithm);
            expect_text(me, me.comm, "anello_allreduce \"mine\": algorithm " + std::string(algorithm));
            expect_text(me, me.comm,
                        "it may be direct, central, attach, staged, ring, pairwise, doubling, halving, tree");
            me.fails(anello_post(me.comm, &call, &request), ANELLO_ERR_ARGUMENT, algorithm);
            me.fails(anello_post_init(me.comm, &call, &request), ANELLO_ERR_ARGUMENT, algorithm);
          }
          anello_call_t barrier = ANELLO_CALL_INITIALIZER;
          barrier.algorithm = "ring";
          me.fails(anello_post(me.comm, &barrier, nullptr), ANELLO_ERR_ARGUMENT, "a ring barrier");
          expect_text(me, me.comm, "it may be exchange, dissemination");
          barrier.algorithm = "dissemination";
          me.ok(anello_post(me.comm, &barrier, nullptr), "a barrier by dissemination");
          // Messages have no use for one.
          anello_call_t note = message(me.rank == 0 ? ANELLO_SEND : ANELLO_RECV, values, 1 - me.rank);
          note.algorithm = "ring";
          me.ok(anello_post(me.comm, &note, nullptr), "a message");
          me.ok(anello_barrier(me.comm), "barrier");
        }) == "");
}

TEST_CASE("a persistent request keeps the strings of its call") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          std::vector<std::int32_t> values(1000);
          anello_request_t request = ANELLO_REQUEST_NULL;
          {
            const std::string algorithm = me.rank == 0 ? "pairwise" : std::string("pair") + "wise", label = "again";
            const anello_call_t call = sum_of(values, algorithm.c_str(), label.c_str());
            me.ok(anello_post_init(me.comm, &call, &request), "init");
          }
          for (int round = 0; round < 3; ++round) {
            values.assign(1000, me.rank);
            me.ok(anello_start(&request), "start");
            me.ok(anello_wait(&request, nullptr), "wait");
            if (values != std::vector<std::int32_t>(1000, 3)) me.report.wrong("wrong sum");
          }
          me.ok(anello_request_free(&request), "free");
        }) == "");
}

TEST_CASE("a struct of an older header is one whose last fields are not set") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          std::vector<std::int32_t> values(1);
          // What lies behind the caller's struct is not the library's to read.
          anello_call_t call = sum_of(values, "none such", "not seen");
          call.timeout_ms = -1;
          call.sendcounts = call.recvcounts = reinterpret_cast<const std::size_t*>(8);
          for (const std::size_t size : {offsetof(anello_call_t, timeout_ms), offsetof(anello_call_t, sendcounts),
                                         offsetof(anello_call_t, algorithm)}) {
            if (size > offsetof(anello_call_t, timeout_ms)) call.timeout_ms = 0;
            call.size = size;
            values[0] = me.rank;
            me.ok(anello_post(me.comm, &call, nullptr), "post of " + std::to_string(size));
            if (values[0] != 1) me.report.wrong("size ", size, " gave ", values[0]);
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_post_init(me.comm, &call, &request), "init of " + std::to_string(size));
            me.ok(anello_start(&request), "start");
            me.ok(anello_wait(&request, nullptr), "wait");
            if (values[0] != 2) me.report.wrong("size ", size, " gave ", values[0], " when started");
            me.ok(anello_request_free(&request), "free");
          }
          for (const std::size_t size :
               {std::size_t(0), offsetof(anello_call_t, timeout_ms) - 8, sizeof call - 3, sizeof call + 8}) {
            call.size = size;
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.fails(anello_post(me.comm, &call, nullptr), ANELLO_ERR_ARGUMENT, "post of " + std::to_string(size));
            me.fails(anello_post_init(me.comm, &call, &request), ANELLO_ERR_ARGUMENT,
                     "init of " + std::to_string(size));
          }
        }) == "");
}

TEST_CASE("each call has its own deadline, and its label is in what is said of it") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  const auto kind = GENERATE(ANELLO_ALLREDUCE, ANELLO_RECV, ANELLO_PROBE, ANELLO_SEND);
  const auto way = GENERATE(as<std::string>(), "blocking", "nonblocking", "persistent");
  INFO(transports << " " << kind << " " << way);
  if (kind == ANELLO_PROBE && way != "blocking") return;
  CHECK(run_ranks(2, transports.c_str(), [&](const Rank& me) {
          anello_comm_t comm = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &comm), "dup");
          std::vector<std::int32_t> values(100'000);
          if (me.rank == 0) {
            anello_call_t call = kind == ANELLO_ALLREDUCE ? sum_of(values) : message(kind, values, 1);
            call.timeout_ms = 150;
            call.label = "a name that is longer than what is kept of it, which is 62 of \xc3\xa4 these";
            const Watch watch;
            anello_request_t request = ANELLO_REQUEST_NULL;
            anello_result_t result = ANELLO_OK;
            if (way == "blocking") {
              result = anello_post(comm, &call, nullptr);
            } else if (way == "nonblocking") {
              me.ok(anello_post(comm, &call, &request), "post");
              result = anello_wait(&request, nullptr);
            } else {
              me.ok(anello_post_init(comm, &call, &request), "init");
              me.ok(anello_start(&request), "start");
              result = anello_wait(&request, nullptr);
              me.ok(anello_request_free(&request), "free");
            }
            me.fails(result, ANELLO_ERR_TIMEOUT, "a deadline of 150 ms");
            if (watch.ms() < 140 || watch.ms() > 10'000) me.report.wrong("it passed after ", watch.ms(), " ms");
            expect_text(
                me, comm,
                " \"a name that is longer than what is kept of it, which is 62 of \" on rank 0 made no progress");
          }
          me.ok(anello_barrier(me.comm), "barrier");
          anello_comm_destroy(comm);
        }) == "");
}
