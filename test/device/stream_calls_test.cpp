// Calls in callers' streams: the stream's order, graphs, groups, messages.
#include "in_stream.h"

#include <anello/stream.h>

#include "support/catch.h"

#include <atomic>
#include <chrono>
#include <vector>

using namespace anello::test;

TEST_CASE("calls in a stream run in its order, with nobody waiting in between") {
  for (const char* const transport : {"inproc", "shm", "tcp"}) {
    CHECK(run_ranks(3, transport, [](const Rank& me) {
            const Stream stream;
            const OnDevice sum(5000, 1), copy(5000);
            for (int round = 0; round < 5; ++round) {
              me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), 5000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
                    "allreduce_on");
              copy_on_device(copy.data(), sum.data(), 5000 * sizeof(float), stream);
              me.ok(anello_broadcast_on(copy.data(), 5000, ANELLO_FLOAT32, round % 3, me.comm, stream), "broadcast_on");
            }
            stream.wait();
            is(me, sum.at(4999), 243, "the sum");
            is(me, copy.at(0), 243, "the copy");
            me.ok(anello_comm_async_error(me.comm), "async_error");
          }) == "");
  }
}

TEST_CASE("one rank's call in a stream goes with another's that waits, and with buffers on the host") {
  CHECK(run_ranks(2, "shm",
                  [](const Rank& me) {
    const Stream stream;
    const OnDevice device(1000, 2);
    std::vector<float> host(1000, 5);
    for (int round = 0; round < 20; ++round) {
      if (me.rank == 0) {
        me.ok(anello_allreduce_on(ANELLO_IN_PLACE, device.data(), 1000, ANELLO_FLOAT32, ANELLO_MAX, me.comm, stream),
              "allreduce_on");
      } else if (round % 2 == 0) {
        me.ok(anello_allreduce_on(ANELLO_IN_PLACE, host.data(), 1000, ANELLO_FLOAT32, ANELLO_MAX, me.comm, stream),
              "allreduce_on of the host's");
      } else {
        stream.wait();
        me.ok(anello_allreduce(ANELLO_IN_PLACE, host.data(), 1000, ANELLO_FLOAT32, ANELLO_MAX, me.comm), "allreduce");
      }
    }
    stream.wait();
    if (me.rank == 0) is(me, device.at(999), 5, "the maximum");
        }) == "");
}

TEST_CASE("a graph with a call is replayed") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Stream stream;
          const OnDevice sum(3000, 1);
          begin_capture(stream);
          me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), 3000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
                "captured");
          void* const graph = end_capture(stream);
          is(me, sum.at(0), 1, "before");
          for (int round = 0; round < 10; ++round) replay(graph, stream);
          stream.wait();
          is(me, sum.at(2999), 1024, "after");
          me.ok(anello_allreduce(ANELLO_IN_PLACE, sum.data(), 3000, ANELLO_FLOAT32, ANELLO_MAX, me.comm), "outside");
          destroy_graph(graph);
        }) == "");
}

TEST_CASE("a graph with messages is replayed, and takes them from any rank each time") {
  constexpr std::size_t kCount = 300'000;
  for (const char* const transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    CHECK(run_ranks(3, transport, [&](const Rank& me) {
            const Stream stream;
            const OnDevice out(kCount, float(me.rank)), in(kCount, 9);
            begin_capture(stream);
            if (me.rank == 0) {
              me.ok(anello_recv_on(in.data(), kCount, ANELLO_FLOAT32, ANELLO_ANY_SOURCE, 0, me.comm, stream),
                    "recv_on");
            } else {
              me.ok(anello_send_on(out.data(), kCount, ANELLO_FLOAT32, 0, 0, me.comm, stream), "send_on");
            }
            void* const graph = end_capture(stream);
            for (int round = 0; round < 4; ++round) {
              for (int from = 1; from < 3; ++from) {
                if (me.rank == 0 || me.rank == from) {
                  out.put(float(10 * round + from));
                  replay(graph, stream);
                  stream.wait();
                  if (me.rank == 0) is(me, in.at(kCount - 1), float(10 * round + from), "what came");
                }
                me.ok(anello_barrier(me.comm), "barrier");
              }
            }
            destroy_graph(graph);
          }) == "");
  }
}

TEST_CASE("a send and a receive of one group do not wait for each other") {
  constexpr std::size_t kCount = 300'000;
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const Stream stream;
          const OnDevice out(kCount, float(me.rank + 1)), in(kCount);
          for (int round = 0; round < 3; ++round) {
            anello_group_begin();
            me.ok(anello_send_on(out.data(), kCount, ANELLO_FLOAT32, 1 - me.rank, 0, me.comm, stream), "send_on");
            me.ok(anello_recv_on(in.data(), kCount, ANELLO_FLOAT32, 1 - me.rank, 0, me.comm, stream), "recv_on");
            me.ok(anello_group_end(), "group");
          }
          stream.wait();
          is(me, in.at(kCount - 1), float(2 - me.rank), "what came");
        }) == "");
}

TEST_CASE("a receive in a stream leaves what is behind a short message as it is") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Stream stream;
          const OnDevice buffer(100, float(me.rank + 1));
          if (me.rank == 0) {
            me.ok(anello_send_on(buffer.data(), 10, ANELLO_FLOAT32, 1, 0, me.comm, stream), "send_on");
          } else {
            me.ok(anello_recv_on(buffer.data(), 100, ANELLO_FLOAT32, 0, 0, me.comm, stream), "recv_on");
          }
          stream.wait();
          is(me, buffer.at(9), 1, "the message");
          is(me, buffer.at(10), float(me.rank + 1), "behind it");
        }) == "");
}

TEST_CASE("two streams with a communicator each") {
  CHECK(run_ranks(2, "shm",
                  [](const Rank& me) {
    anello_comm_t other = ANELLO_COMM_NULL;
    me.ok(anello_comm_dup(me.comm, &other), "dup");
    const Stream one, two;
    const OnDevice first(1000, 1), second(1000, 1);
    for (int round = 0; round < 8; ++round) {
      me.ok(anello_allreduce_on(ANELLO_IN_PLACE, first.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, one), "one");
      me.ok(anello_allreduce_on(ANELLO_IN_PLACE, second.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other, two), "two");
    }
    two.wait();
    one.wait();
    is(me, first.at(0), 256, "one");
    is(me, second.at(0), 256, "two");
    anello_comm_destroy(other);
        }) == "");
}

TEST_CASE("a message that is too long for a receive in a stream is told") {
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const Stream stream;
          const OnDevice out(500, 1), in(1000, 9);
          if (me.rank == 0) {
            me.ok(anello_send_on(out.data(), 500, ANELLO_FLOAT32, 1, 4, me.comm, stream), "send_on");
            stream.wait();
          } else {
            me.ok(anello_recv_on(in.data(), 100, ANELLO_FLOAT32, 0, 4, me.comm, stream), "recv_on");
            stream.wait();
            me.fails(anello_comm_async_error(me.comm), ANELLO_ERR_TRUNCATE, "async_error");
            is(me, in.at(100), 9, "behind the buffer");
          }
        }) == "");
}

TEST_CASE("messages in streams to oneself, to no rank, and of any length") {
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          constexpr std::size_t kMost = 300'000;
          const Stream stream;
          const OnDevice out(kMost, float(me.rank + 1)), in(kMost, 9);
          me.ok(anello_recv_on(in.data(), kMost, ANELLO_FLOAT32, ANELLO_RANK_NULL, 0, me.comm, stream), "from no rank");
          me.ok(anello_send_on(out.data(), kMost, ANELLO_FLOAT32, ANELLO_RANK_NULL, 0, me.comm, stream), "to no rank");
          stream.wait();
          is(me, in.at(0), 9, "from no rank");
          for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kMost}) {
            for (const int peer : {me.rank, 1 - me.rank}) {
              anello_group_begin();
              me.ok(anello_send_on(out.data(), count, ANELLO_FLOAT32, peer, 0, me.comm, stream), "send_on");
              me.ok(anello_recv_on(in.data(), count, ANELLO_FLOAT32, peer, 0, me.comm, stream), "recv_on");
              me.ok(anello_group_end(), "group");
              stream.wait();
              if (count > 0) is(me, in.at(count - 1), float(peer + 1), "what came");
            }
          }
          me.ok(anello_comm_async_error(me.comm), "async_error");
        }) == "");
}
