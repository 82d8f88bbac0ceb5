// A send and a receive at once: blocking, with one request for both, and again and again.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kSizes[] = {0, 1, 1000,
                                  300'000};  // the last: more than a receiver keeps that has not asked for it

bool is(const anello_status_t& status, int source, int tag, std::size_t count) {
  return status.source == source && status.tag == tag && status.count == count;
}

}  // namespace

TEST_CASE("a ring of sendrecv turns, whatever the size, and nobody is a peer too") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const auto waits = GENERATE(true, false);
  CHECK(run_ranks(kRanks, transports.c_str(),
                  [waits](const Rank& me) {
    const auto both = [&](const std::vector<std::int32_t>& out, int dest, std::vector<std::int32_t>& in, int source,
                          int tag, anello_status_t& status) {
      if (waits) {
        me.ok(anello_sendrecv(out.data(), out.size(), dest, tag, in.data(), in.size(), source, tag, ANELLO_INT32,
                              me.comm, &status),
              "sendrecv");
        return;
      }
      anello_request_t request = ANELLO_REQUEST_NULL;
      me.ok(anello_isendrecv(out.data(), out.size(), dest, tag, in.data(), in.size(), source, tag, ANELLO_INT32,
                             me.comm, &request),
            "isendrecv");
      me.ok(anello_wait(&request, &status), "wait");
      if (request != ANELLO_REQUEST_NULL) me.report.wrong("the request is still there");
    };
    for (const std::size_t count : kSizes) {
      std::vector<std::int32_t> out(count, me.rank), in(count, -1);
      const int next = (me.rank + 1) % kRanks, prev = (me.rank + kRanks - 1) % kRanks;
      anello_status_t status{};
      both(out, next, in, prev, 1, status);
      if (!is(status, prev, 1, count) || (count > 0 && in[count - 1] != prev)) me.report.wrong("another's came");
      // A chain: its ends have nobody beside them.
      const int up = me.rank == kRanks - 1 ? ANELLO_RANK_NULL : next, down = me.rank == 0 ? ANELLO_RANK_NULL : prev;
      std::fill(in.begin(), in.end(), -1);
      both(out, up, in, down, 2, status);
      const bool first = me.rank == 0;
      if (!is(status, first ? ANELLO_RANK_NULL : prev, first ? ANELLO_ANY_TAG : 2, first ? 0 : count)) {
        me.report.wrong("the status is ", status.source, " ", status.tag, " ", status.count);
      }
      if (count > 0 && in[0] != (first ? -1 : prev)) me.report.wrong("the chain delivered ", in[0]);
    }
    std::int32_t shared[2] = {0, 0};
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.fails(anello_sendrecv(shared, 2, me.rank, 1, shared + 1, 1, me.rank, 1, ANELLO_INT32, me.comm, nullptr),
             ANELLO_ERR_ARGUMENT, "sendrecv on overlapping buffers");
    me.fails(anello_isendrecv(shared, 2, me.rank, 1, shared + 1, 1, me.rank, 1, ANELLO_INT32, me.comm, &request),
             ANELLO_ERR_ARGUMENT, "isendrecv on overlapping buffers");
    me.fails(anello_isendrecv(shared, 1, me.rank, 1, shared + 1, 1, me.rank, 1, ANELLO_INT32, me.comm, nullptr),
             ANELLO_ERR_ARGUMENT, "isendrecv without a request");
    me.fails(anello_sendrecv_init(shared, 1, kRanks, 1, shared + 1, 1, me.rank, 1, ANELLO_INT32, me.comm, &request),
             ANELLO_ERR_ARGUMENT, "sendrecv_init to a rank that is none");
        }) == "");
}

// Rank 0 asks for both long before rank 1 takes its message, which is too long to be kept for it.
TEST_CASE("a request for both is complete when both are") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const auto how = GENERATE(as<std::string>(), "wait_any", "wait_some", "test", "test_any");
  CHECK(run_ranks(2, transports.c_str(), [&how](const Rank& me) {
          const std::size_t count = 1'000'000;
          std::vector<std::int32_t> out(count, 5 + me.rank), in(count, -1);
          std::int32_t go = 0;
          if (me.rank == 1) {
            me.ok(anello_send(out.data(), 1, ANELLO_INT32, 0, 1, me.comm), "send");
            me.ok(anello_recv(&go, 1, ANELLO_INT32, 0, 2, me.comm, nullptr), "recv");
            me.ok(anello_recv(in.data(), count, ANELLO_INT32, 0, 1, me.comm, nullptr), "recv");
            if (in[count - 1] != 5) me.report.wrong("rank 0 has sent ", in[count - 1]);
            return;
          }
          anello_request_t requests[2] = {};
          me.ok(anello_isendrecv(out.data(), count, 1, 1, in.data(), 10, 1, 1, ANELLO_INT32, me.comm, &requests[1]),
                "isendrecv");
          int index = -1, done = 0;
          // The receive can end, the send cannot. Its buffer may not be looked at to see whether it has: the request is
          // under way.
          const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
          while (std::chrono::steady_clock::now() < enough) {
            me.ok(anello_test(&requests[1], &done, nullptr), "test");
            if (done != 0) return me.report.wrong("the request is complete before its send");
          }
          for (int i = 0; i < 100; ++i) {
            me.ok(anello_test_any(2, requests, &index, &done, nullptr), "test_any");
            if (done != 0) return me.report.wrong("the request is complete before its send");
          }
          me.ok(anello_send(&go, 1, ANELLO_INT32, 1, 2, me.comm), "send");
          anello_status_t status{};
          if (how == "wait_any") {
            me.ok(anello_wait_any(2, requests, &index, &status), "wait_any");
            if (index != 1) me.report.wrong("wait_any says ", index);
          } else if (how == "wait_some") {
            me.ok(anello_wait_some(2, requests, &done, &index, &status), "wait_some");
            if (done != 1 || index != 1) me.report.wrong("wait_some says ", done, " ", index);
          } else if (how == "test") {
            for (done = 0; done == 0;) me.ok(anello_test(&requests[1], &done, &status), "test");
          } else {
            for (done = 0; done == 0;) me.ok(anello_test_any(2, requests, &index, &done, &status), "test_any");
            if (index != 1) me.report.wrong("test_any says ", index);
          }
          if (requests[1] != ANELLO_REQUEST_NULL) me.report.wrong("the request is still there");
          if (!is(status, 1, 1, 1))
            me.report.wrong("the status is ", status.source, " ", status.tag, " ", status.count);
          if (in[0] != 6) me.report.wrong("rank 1 has sent ", in[0]);
        }) == "");
}

TEST_CASE("a persistent sendrecv turns a ring again and again") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(kRanks, transports.c_str(), [](const Rank& me) {
          const int next = (me.rank + 1) % kRanks, prev = (me.rank + kRanks - 1) % kRanks;
          for (const std::size_t count : kSizes) {
            std::vector<std::int32_t> out(count), in(count + 1);
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_sendrecv_init(out.data(), count, next, 3, in.data(), count + 1, prev, 3, ANELLO_INT32, me.comm,
                                       &request),
                  "sendrecv_init");
            const anello_request_t same = request;
            for (int round = 0; round < 10; ++round) {
              out.assign(count, 10 * me.rank + round);
              anello_status_t status{};
              me.ok(anello_start(&request), "start");
              me.fails(anello_start(&request), ANELLO_ERR_STATE, "start of an active request");
              me.fails(anello_request_free(&request), ANELLO_ERR_STATE, "free of an active request");
              me.ok(anello_wait(&request, &status), "wait");
              if (request != same) me.report.wrong("the request went with its completion");
              if (!is(status, prev, 3, count))
                me.report.wrong("the status is ", status.source, " ", status.tag, " ", status.count);
              if (count > 0 && in[count - 1] != 10 * prev + round)
                me.report.wrong("round ", round, " gave ", in[count - 1]);
              me.ok(anello_wait(&request, nullptr), "wait for an inactive request");
            }
            me.ok(anello_request_free(&request), "free");
          }
        }) == "");
}

TEST_CASE("what fails in one half of a sendrecv is the result of both") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(),
                  [](const Rank& me) {
    const int other = 1 - me.rank;
    std::vector<std::int32_t> out(100, me.rank), in(100, -1);
    anello_request_t request = ANELLO_REQUEST_NULL;
    // Too long for the room of one: an error of that receive alone.
    const std::size_t room = me.rank == 0 ? 99 : 100;
    me.ok(anello_isendrecv(out.data(), 100, other, 1, in.data(), room, other, 1, ANELLO_INT32, me.comm, &request),
          "isendrecv");
    if (me.rank == 0) {
      me.fails(anello_wait(&request, nullptr), ANELLO_ERR_TRUNCATE, "wait");
    } else {
      me.ok(anello_wait(&request, nullptr), "wait");
    }
    me.ok(anello_sendrecv(out.data(), 100, other, 2, in.data(), 100, other, 2, ANELLO_INT32, me.comm, nullptr),
          "sendrecv");
    if (in[99] != other) me.report.wrong("then came ", in[99]);
    // Nobody sends, and then the communicator is aborted.
    anello_request_t again = ANELLO_REQUEST_NULL;
    me.ok(anello_sendrecv_init(out.data(), 100, other, 3, in.data(), 100, other, 4, ANELLO_INT32, me.comm, &again),
          "init");
    me.ok(anello_start(&again), "start");
    // Once the other is there: its token asks for nothing in return, as the last call of a barrier would.
    if (me.rank == 0) {
      me.ok(anello_send(out.data(), 1, ANELLO_INT32, 1, 5, me.comm), "send");
    } else {
      me.ok(anello_recv(in.data(), 1, ANELLO_INT32, 0, 5, me.comm, nullptr), "recv");
      me.ok(anello_comm_abort(me.comm, "enough"), "abort");
    }
    me.fails(anello_wait(&again, nullptr), ANELLO_ERR_ABORTED, "wait");
    me.fails(anello_start(&again), ANELLO_ERR_ABORTED, "start");
    me.ok(anello_request_free(&again), "free");
    me.fails(anello_isendrecv(out.data(), 100, other, 1, in.data(), 100, other, 1, ANELLO_INT32, me.comm, &request),
             ANELLO_ERR_ABORTED, "isendrecv");
    if (request != ANELLO_REQUEST_NULL) me.report.wrong("a refused call left a request");
        }) == "");
}
