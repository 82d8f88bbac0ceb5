// Calls in callers' streams: what goes wrong is told, and lets streams pass.
#include "in_stream.h"

#include <anello/stream.h>

#include "support/catch.h"

#include <atomic>
#include <chrono>
#include <vector>

using namespace anello::test;

TEST_CASE("when the deadline passes, the stream goes on and the error is told") {
  CHECK(run_ranks(
            2, "shm",
            [](const Rank& me) {
    if (me.rank == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    const Stream stream;
    const OnDevice buffer(1000, 1);
    me.ok(anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
          "allreduce_on");
    me.ok(anello_comm_async_error(me.comm), "not yet");
    const auto begin = Clock::now();
    stream.wait();
    if (Clock::now() - begin > std::chrono::seconds(10)) me.report.wrong("it took long");
    me.fails(anello_comm_async_error(me.comm), ANELLO_ERR_TIMEOUT, "async_error");
            },
            500) == "");
}

TEST_CASE("an abort lets streams pass all that is enqueued") {
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm",
                  [&](const Rank& me) {
    const Stream stream;
    const OnDevice buffer(1000, 1);
    if (me.rank == 0) {
      for (int call = 0; call < 5; ++call) {
        me.ok(anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
              "allreduce_on");
        me.ok(anello_send_on(buffer.data(), 1000, ANELLO_FLOAT32, 1, 0, me.comm, stream), "send_on");
      }
    }
    ++ready;
    reaches(me, ready, 2);
    if (me.rank == 1) anello_comm_abort(me.comm, "enough");
    stream.wait();
    if (me.rank == 0) me.fails(anello_comm_async_error(me.comm), ANELLO_ERR_ABORTED, "async_error");
        }) == "");
}

TEST_CASE("after the first call of a size, nothing is allocated or pinned", "[fake]") {
  std::atomic<int> ready{0};
  int before = 0;
  const auto count = [] { return device_calls("cuMemHostRegister_v2") + device_calls("cuMemHostAlloc"); };
  CHECK(run_ranks(2, "shm",
                  [&](const Rank& me) {
    const Stream stream;
    const OnDevice buffer(100'000, 1);
    for (int round = 0; round < 20; ++round) {
      if (round == 1) {
        stream.wait();
        if (++ready == 2) before = count();
        reaches(me, ready, 2);
      }
      me.ok(anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 100'000, ANELLO_FLOAT32, ANELLO_MAX, me.comm, stream),
            "allreduce_on");
    }
    stream.wait();
        }) == "");
  CHECK(count() == before);
}

TEST_CASE("what cannot be enqueued is refused") {
  CHECK(run_ranks(1, "inproc", [](const Rank& me) {
          const Stream stream;
          const OnDevice buffer(10, 1);
          me.fails(anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 11, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
                   ANELLO_ERR_ARGUMENT, "a short buffer");
          me.fails(anello_post_on(me.comm, nullptr, stream), ANELLO_ERR_ARGUMENT, "no call");
          me.ok(anello_barrier_on(me.comm, nullptr), "a barrier in the default stream");
          wait_for_stream(nullptr);
        }) == "");
}

TEST_CASE("more calls than a stream's queue holds", "[fake]") {
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const Stream stream;
          const OnDevice sum(1, 1);
          if (me.rank == 1) reaches(me, ready, 1);
          for (int call = 0; call < 400; ++call) {
            if (me.rank == 0 && call == 150) ++ready;
            me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), 1, ANELLO_FLOAT32, ANELLO_MAX, me.comm, stream),
                  "allreduce_on");
          }
          stream.wait();
          is(me, sum.at(0), 1, "the maximum");
        }) == "");
}

TEST_CASE("a stream that comes to a call after its communicator was destroyed passes", "[fake]") {
  const Healed healed;
  const Stream stream;
  const OnDevice buffer(1000, 1);
  CHECK(run_ranks(1, "inproc", [&](const Rank& me) {
          hold_device(true);
          for (int call = 0; call < 3; ++call) {
            me.ok(
                anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
                "allreduce_on");
          }
        }) == "");
  hold_device(false);
  CHECK(passes(stream));
}

TEST_CASE("a communicator may be destroyed within a group that has a call of it in a stream") {
  CHECK(run_ranks(1, "inproc", [&](const Rank& me) {
          anello_comm_t other = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &other), "dup");
          const Stream stream;
          const OnDevice buffer(1000, 1);
          anello_group_begin();
          me.ok(anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other, stream),
                "allreduce_on");
          me.ok(anello_barrier_on(me.comm, stream), "a barrier of another communicator");
          me.ok(anello_comm_destroy(other), "destroy");
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          me.ok(anello_group_end(), "group");
          if (!passes(stream)) me.report.wrong("the stream waits");
        }) == "");
}

// Over tcp, calls go through the host.
TEST_CASE("a driver that refuses to enqueue ends the communicator, and no stream waits", "[fake]") {
  struct Fault {
    const char* call;
    int after;
  };
  for (const Fault& fault :
       {Fault{"cuStreamWriteValue32_v2", 0}, {"cuStreamWaitValue32_v2", 0}, {"cuStreamWriteValue32_v2", 1}}) {
    const Healed healed;
    std::atomic<int> ready{0};
    INFO(fault.call);
    CHECK(run_ranks(2, "tcp", [&](const Rank& me) {
            const Stream stream;
            const OnDevice buffer(1000, float(me.rank + 1));
            const auto enqueue =
                [&] {
        return anello_allreduce_on(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream);
            };
            if (me.rank == 1) {
              me.ok(enqueue(), "allreduce_on");
              ++ready;
              reaches(me, ready, 2);
              if (!passes(stream)) me.report.wrong("rank 1's stream waits");
              if (anello_comm_async_error(me.comm) == ANELLO_OK) me.report.wrong("rank 1 heard nothing of it");
            } else {
              reaches(me, ready, 1);
              fail_device_call(fault.call, 2, fault.after);
              if (enqueue() == ANELLO_OK) me.report.wrong("nothing was refused");
              fail_device_call(fault.call, 0);
              ++ready;
              if (!passes(stream)) me.report.wrong("rank 0's stream waits");
              if (anello_comm_async_error(me.comm) == ANELLO_OK) me.report.wrong("rank 0 goes on");
            }
          }) == "");
  }
}

TEST_CASE("a group waits for its other calls if one cannot be enqueued", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "tcp", [&](const Rank& me) {
          anello_comm_t other = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &other), "dup");
          const Stream one, two;
          const OnDevice lost(1000, 1);
          std::vector<float> sum(1000, 1);
          ++ready;
          reaches(me, ready, 2);
          if (me.rank == 0) {
            anello_group_begin();
            me.ok(anello_barrier_on(other, two), "barrier_on");
            me.ok(anello_allreduce_on(ANELLO_IN_PLACE, lost.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, one),
                  "allreduce_on");
            me.ok(anello_allreduce(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other), "allreduce");
            fail_device_call("cuStreamWaitValue32_v2", 2, 1);
            if (anello_group_end() == ANELLO_OK) me.report.wrong("nothing was refused");
            fail_device_call("cuStreamWaitValue32_v2", 0);
            ++ready;
          } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            me.ok(anello_barrier(other), "barrier");
            me.ok(anello_allreduce(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other), "allreduce");
            reaches(me, ready, 3);
          }
          is(me, sum[999], 2, "the sum");
          for (void* const stream : {static_cast<void*>(one), static_cast<void*>(two)})
            if (!passes(stream)) me.report.wrong("a stream waits");
          me.ok(anello_comm_async_error(other), "the other communicator");
          anello_comm_destroy(other);
        }) == "");
}

TEST_CASE("a message in a stream that finds its communicator aborted ends once") {
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const Stream stream;
          const OnDevice buffer(1000, 1);
          for (int round = 1; round <= 50; ++round) {
            anello_comm_t other = ANELLO_COMM_NULL;
            me.ok(anello_comm_dup(me.comm, &other), "dup");
            ++ready;
            reaches(me, ready, 2 * round);
            if (me.rank == 1) {
              anello_comm_abort(other, "enough");
            } else {
              for (int call = 0; call < 20; ++call)
                static_cast<void>(anello_send_on(buffer.data(), 1000, ANELLO_FLOAT32, 1, 0, other, stream));
              if (!passes(stream)) me.report.wrong("the stream waits");
            }
            std::vector<std::vector<float>> sums(6, std::vector<float>(1000, 1));
            std::vector<anello_request_t> requests(sums.size(), ANELLO_REQUEST_NULL);
            for (std::size_t i = 0; i < sums.size(); ++i) {
              me.ok(anello_iallreduce(ANELLO_IN_PLACE, sums[i].data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm,
                                      &requests[i]),
                    "iallreduce");
            }
            me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
            for (const std::vector<float>& sum : sums) is(me, sum[999], 2, "a sum");
            anello_comm_destroy(other);
          }
        }) == "");
}

TEST_CASE("a call that fails does not wait for streams that wait for this rank", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          anello_comm_t other = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &other), "dup");
          const Stream stream;
          const OnDevice sum(1000, 1), lost(1000, 1);
          if (me.rank == 0) {
            me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
                  "allreduce_on");
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_iallreduce(ANELLO_IN_PLACE, lost.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other, &request),
                  "iallreduce");
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            anello_comm_abort(other, "enough");
            me.fails(anello_wait(&request, nullptr), ANELLO_ERR_ABORTED, "wait");
            ++ready;
          } else {
            reaches(me, ready, 1);
            me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
                  "allreduce_on");
          }
          stream.wait();
          is(me, sum.at(0), 2, "the sum");
          anello_comm_destroy(other);
        }) == "");
}

TEST_CASE("a deadline does not count what a stream has to do before its call", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(
            2, "shm",
            [&](const Rank& me) {
    const Stream stream;
    const OnDevice sum(1000, 1);
    ++ready;
    reaches(me, ready, 2);
    hold_device(true);
    me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
          "allreduce_on");
    const auto begin = Clock::now();
    while (Clock::now() - begin < std::chrono::milliseconds(900)) {
      me.ok(anello_progress(me.comm), "progress");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ++ready;
    reaches(me, ready, 4);
    hold_device(false);
    stream.wait();
    me.ok(anello_comm_async_error(me.comm), "async_error");
    is(me, sum.at(0), 2, "the sum");
            },
            300) == "");
}

// The copy of the second call waits for the default stream, which waits for the first; and the first one's copy comes
// after it, in the queue of the same copy engine.
TEST_CASE("a call outside of streams does not hold up one in the default stream", "[fake]") {
  const Healed healed;
  for (const bool to_device : {false, true}) {
    CHECK(run_ranks(1, "shm", [&](const Rank& me) {
            anello_comm_t other = ANELLO_COMM_NULL;
            me.ok(anello_comm_dup(me.comm, &other), "dup");
            const OnDevice one(1000, 1), two(1000, 2);
            const std::vector<float> host(1000, 3);
            const void* const from = to_device ? static_cast<const void*>(host.data()) : ANELLO_IN_PLACE;
            hold_device(true);
            me.ok(anello_allreduce_on(ANELLO_IN_PLACE, one.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, nullptr),
                  "allreduce_on");
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_iallreduce(from, two.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other, &request), "iallreduce");
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            hold_device(false);
            me.ok(anello_wait(&request, nullptr), "wait");
            if (!passes(nullptr)) me.report.wrong("the default stream waits");
            is(me, one.at(999), 1, "the first");
            is(me, two.at(999), to_device ? 3 : 2, "the second");
            me.ok(anello_comm_destroy(other), "destroy");
          }) == "");
  }
}
