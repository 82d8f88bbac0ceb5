// Requests that are started again and again.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <string>
#include <vector>

using namespace anello::test;

TEST_CASE("a persistent all-reduce sums what lies in its buffer at each start") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(3, transports.c_str(), [](const Rank& me) {
          for (const std::size_t count : {std::size_t(1), std::size_t(50'000)}) {
            std::vector<std::int32_t> in(count), out(count);
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_allreduce_init(in.data(), out.data(), count, ANELLO_INT32, ANELLO_SUM, me.comm, &request),
                  "init");
            anello_request_t same = request;
            for (int round = 0; round < 20; ++round) {
              in.assign(count, round * 10 + me.rank);
              me.ok(anello_start(&request), "start");
              me.fails(anello_start(&request), ANELLO_ERR_STATE, "start of an active request");
              me.fails(anello_request_free(&request), ANELLO_ERR_STATE, "free of an active request");
              if (round % 2 == 0) {
                me.ok(anello_wait(&request, nullptr), "wait");
              } else {
                for (int done = 0; done == 0;) me.ok(anello_test(&request, &done, nullptr), "test");
              }
              if (request != same) me.report.wrong("the request went with its completion");
              if (out[count - 1] != 30 * round + 3) me.report.wrong("round ", round, " gave ", out[count - 1]);
              me.ok(anello_wait(&request, nullptr), "wait for an inactive request");
            }
            me.ok(anello_request_free(&request), "free");
            if (request != ANELLO_REQUEST_NULL) me.report.wrong("the request is still there");
            me.fails(anello_start(&same), ANELLO_ERR_STATE, "start of a request that was freed");
          }
        }) == "");
}

TEST_CASE("persistent calls of all kinds start together, in order, and complete in any") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          constexpr std::size_t kCount = 3000;
          const int other = 1 - me.rank;
          std::vector<float> cast(kCount), gathered(2 * kCount), own(kCount, float(me.rank)), part(kCount),
              whole(2 * kCount, 1.5f), out(kCount), in(kCount);
          anello_request_t requests[6] = {};
          me.ok(anello_broadcast_init(cast.data(), kCount, ANELLO_FLOAT32, 1, me.comm, &requests[0]), "broadcast_init");
          me.ok(anello_allgather_init(own.data(), gathered.data(), kCount, ANELLO_FLOAT32, me.comm, &requests[1]),
                "allgather_init");
          me.ok(anello_reduce_scatter_block_init(whole.data(), part.data(), kCount, ANELLO_FLOAT32, ANELLO_SUM, me.comm,
                                                 &requests[2]),
                "reduce_scatter_block_init");
          me.ok(anello_barrier_init(me.comm, &requests[3]), "barrier_init");
          me.ok(anello_send_init(out.data(), kCount, ANELLO_FLOAT32, other, 2, me.comm, &requests[4]), "send_init");
          me.ok(anello_recv_init(in.data(), kCount, ANELLO_FLOAT32, other, 2, me.comm, &requests[5]), "recv_init");
          int index = 0;
          me.ok(anello_wait_any(6, requests, &index, nullptr), "wait_any");
          if (index != -1) me.report.wrong("wait_any found an inactive request, number ", index);
          for (int round = 0; round < 10; ++round) {
            cast.assign(kCount, me.rank == 1 ? float(round) : -1.0f);
            out.assign(kCount, float(100 * me.rank + round));
            me.ok(anello_start_all(6, requests), "start_all");
            int done = 0, indices[6];
            anello_status_t statuses[6];
            for (int left = 6; left > 0; left -= done) {
              me.ok(anello_wait_some(6, requests, &done, indices, statuses), "wait_some");
              if (done < 1) {
                me.report.wrong("wait_some found ", done, " with ", left, " left");
                break;
              }
            }
            me.ok(anello_wait_some(6, requests, &done, indices, statuses), "wait_some");
            if (done != -1) me.report.wrong("wait_some found ", done, " of none");
            if (cast[7] != float(round) || gathered[0] != 0 || gathered[kCount] != 1 || part[kCount - 1] != 3 ||
                in[0] != float(100 * other + round)) {
              me.report.wrong("round ", round, ": ", cast[7], " ", gathered[kCount], " ", part[kCount - 1], " ", in[0]);
            }
          }
          me.ok(anello_start_all(6, requests), "start_all");
          me.ok(anello_wait_all(6, requests, nullptr), "wait_all");
          for (anello_request_t& request : requests) me.ok(anello_request_free(&request), "free");
        }) == "");
}

TEST_CASE("persistent calls with a root, to all, and of prefixes do it again too") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "tcp");
  CHECK(run_ranks(3, transports.c_str(), [](const Rank& me) {
          constexpr std::size_t kCount = 700;
          std::vector<std::int64_t> in(kCount), reduced(kCount), gathered(3 * kCount), dealt(3 * kCount), part(kCount),
              given(3 * kCount), got(3 * kCount), upto(kCount), before(kCount);
          anello_request_t requests[6] = {};
          const auto type = ANELLO_INT64;
          me.ok(anello_reduce_init(in.data(), reduced.data(), kCount, type, ANELLO_SUM, 1, me.comm, &requests[0]),
                "reduce_init");
          me.ok(anello_gather_init(in.data(), gathered.data(), kCount, type, 2, me.comm, &requests[1]), "gather_init");
          me.ok(anello_scatter_init(dealt.data(), part.data(), kCount, type, 0, me.comm, &requests[2]), "scatter_init");
          me.ok(anello_alltoall_init(given.data(), got.data(), kCount, type, me.comm, &requests[3]), "alltoall_init");
          me.ok(anello_scan_init(in.data(), upto.data(), kCount, type, ANELLO_SUM, me.comm, &requests[4]), "scan_init");
          me.ok(anello_exscan_init(in.data(), before.data(), kCount, type, ANELLO_SUM, me.comm, &requests[5]),
                "exscan_init");
          for (std::int64_t round = 1; round <= 5; ++round) {
            in.assign(kCount, round * (me.rank + 1));
            for (std::size_t i = 0; i < 3 * kCount; ++i) {
              dealt[i] = round + std::int64_t(i / kCount);
              given[i] = 10 * me.rank + std::int64_t(i / kCount) + 100 * round;
            }
            me.ok(anello_start_all(6, requests), "start_all");
            me.ok(anello_wait_all(6, requests, nullptr), "wait_all");
            const std::size_t last = kCount - 1;
            if (me.rank == 1 && reduced[last] != 6 * round) me.report.wrong("reduce gave ", reduced[last]);
            if (me.rank == 2 && (gathered[0] != round || gathered[3 * kCount - 1] != 3 * round))
              me.report.wrong("gather");
            if (part[last] != round + me.rank) me.report.wrong("scatter gave ", part[last]);
            for (int peer = 0; peer < 3; ++peer) {
              if (got[std::size_t(peer) * kCount + last] != 10 * peer + me.rank + 100 * round)
                me.report.wrong("alltoall");
            }
            const std::int64_t sum = round * (me.rank + 1) * (me.rank + 2) / 2;
            if (upto[last] != sum) me.report.wrong("scan gave ", upto[last]);
            if (me.rank > 0 && before[last] != sum - in[last]) me.report.wrong("exscan gave ", before[last]);
          }
          for (anello_request_t& request : requests) me.ok(anello_request_free(&request), "free");
        }) == "");
}

TEST_CASE("persistent calls keep their counts, and the caller's arrays are his again") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          // Rank r gives r + 1 elements.
          std::vector<std::size_t> counts{1, 2, 3}, displs{0, 1, 3}, ones(3, 1), places{0, 1, 2};
          std::vector<std::int32_t> in(std::size_t(me.rank) + 1), all(6, -1), root(6, -1), given(3), got(3), part(3),
              six(6);
          anello_request_t requests[4] = {};
          me.ok(anello_allgatherv_init(in.data(), in.size(), all.data(), counts.data(), displs.data(), ANELLO_INT32,
                                       me.comm, &requests[0]),
                "allgatherv_init");
          me.ok(anello_gatherv_init(in.data(), in.size(), root.data(), counts.data(), displs.data(), ANELLO_INT32, 1,
                                    me.comm, &requests[1]),
                "gatherv_init");
          me.ok(anello_alltoallv_init(given.data(), ones.data(), places.data(), got.data(), ones.data(), places.data(),
                                      ANELLO_INT32, me.comm, &requests[2]),
                "alltoallv_init");
          me.ok(anello_reduce_scatter_init(six.data(), part.data(), counts.data(), ANELLO_INT32, ANELLO_SUM, me.comm,
                                           &requests[3]),
                "reduce_scatter_init");
          for (std::vector<std::size_t>* array : {&counts, &displs, &ones, &places}) array->assign(3, 999);
          for (int round = 0; round < 4; ++round) {
            in.assign(in.size(), 10 * round + me.rank);
            given = {round, round + 1, round + 2};
            six.assign(6, round);
            me.ok(anello_start_all(4, requests), "start_all");
            me.ok(anello_wait_all(4, requests, nullptr), "wait_all");
            const std::vector<std::int32_t> expected{10 * round,     10 * round + 1, 10 * round + 1,
                                                     10 * round + 2, 10 * round + 2, 10 * round + 2};
            if (all != expected) me.report.wrong("allgatherv in round ", round);
            if (me.rank == 1 && root != expected) me.report.wrong("gatherv in round ", round);
            if (got != std::vector<std::int32_t>(3, round + me.rank)) me.report.wrong("alltoallv in round ", round);
            if (part[std::size_t(me.rank)] != 3 * round)
              me.report.wrong("reduce_scatter gave ", part[std::size_t(me.rank)]);
          }
          for (anello_request_t& request : requests) me.ok(anello_request_free(&request), "free");
        }) == "");
}

TEST_CASE("a persistent request outlives its communicator, and then says so") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          anello_comm_t comm = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &comm), "dup");
          anello_request_t request = ANELLO_REQUEST_NULL, once = ANELLO_REQUEST_NULL;
          me.ok(anello_barrier_init(comm, &request), "init");
          me.ok(anello_comm_destroy(comm), "destroy");
          me.fails(anello_start(&request), ANELLO_ERR_STATE, "start");
          me.ok(anello_request_free(&request), "free");
          me.ok(anello_ibarrier(me.comm, &once), "ibarrier");
          me.fails(anello_start(&once), ANELLO_ERR_STATE, "start of a request that is not persistent");
          me.fails(anello_request_free(&once), ANELLO_ERR_STATE, "free of a request that is not persistent");
          me.ok(anello_wait(&once, nullptr), "wait");
          anello_call_t call = ANELLO_CALL_INITIALIZER;
          call.size = 3;
          me.fails(anello_post_init(me.comm, &call, &request), ANELLO_ERR_ARGUMENT,
                   "a struct of no size that was ever one");
        }) == "");
}
