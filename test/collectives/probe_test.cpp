// Messages looked at before they are received, sent and received at once, and to nobody.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace anello::test;

namespace {

constexpr std::size_t kSizes[] = {0, 3, 1024, 200'000};

bool is(const anello_status_t& status, int source, int tag, std::size_t count) {
  return status.source == source && status.tag == tag && status.count == count;
}

}  // namespace

TEST_CASE("a probe tells of the message that the receive then gets, small or large, also one's own") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          for (const std::size_t count : kSizes) {
            for (const int to : {0, 1}) {
              std::vector<std::int32_t> out(count, 7), in(count, 0);
              anello_request_t request = ANELLO_REQUEST_NULL;
              if (me.rank == 0) me.ok(anello_isend(out.data(), count, ANELLO_INT32, to, 5, me.comm, &request), "isend");
              if (me.rank == to) {
                anello_status_t seen{}, got{};
                me.ok(anello_probe(ANELLO_ANY_SOURCE, ANELLO_ANY_TAG, me.comm, &seen), "probe");
                if (!is(seen, 0, 5, count)) me.report.wrong("probe says ", seen.source, " ", seen.tag, " ", seen.count);
                me.ok(anello_recv(in.data(), count, ANELLO_INT32, seen.source, seen.tag, me.comm, &got), "recv");
                if (!is(got, 0, 5, count) || in != out) me.report.wrong("the receive got ", got.count, " of ", count);
              }
              me.ok(anello_wait(&request, nullptr), "wait");
            }
          }
        }) == "");
}

TEST_CASE("a probe that looks once finds nothing, and later the message") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          double value = 2;
          if (me.rank == 0) {
            me.ok(anello_barrier(me.comm), "barrier");
            me.ok(anello_send(&value, 1, ANELLO_FLOAT64, 1, 8, me.comm), "send");
            return;
          }
          int flag = -1;
          anello_status_t status{};
          me.ok(anello_iprobe(0, 8, me.comm, &flag, &status), "iprobe");
          if (flag != 0) me.report.wrong("iprobe found a message that was not sent");
          me.ok(anello_barrier(me.comm), "barrier");
          for (flag = 0; flag == 0;) me.ok(anello_iprobe(0, 8, me.comm, &flag, &status), "iprobe");
          if (!is(status, 0, 8, 1)) me.report.wrong("iprobe says ", status.source, " ", status.tag, " ", status.count);
          me.ok(anello_iprobe(0, 9, me.comm, &flag, nullptr), "iprobe of another tag");
          if (flag != 0) me.report.wrong("iprobe found a message with another tag");
          me.ok(anello_recv(&value, 1, ANELLO_FLOAT64, 0, 8, me.comm, nullptr), "recv");
          me.fails(anello_iprobe(0, 8, me.comm, nullptr, nullptr), ANELLO_ERR_ARGUMENT, "iprobe without a flag");
        }) == "");
}

TEST_CASE("a matched message is out of sight of other receives, and received once") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          for (const std::size_t count : {std::size_t(10), std::size_t(100'000)}) {
            std::vector<std::int32_t> first(count, 1), second(count, 2);
            if (me.rank == 0) {
              anello_request_t requests[2] = {};
              me.ok(anello_isend(first.data(), count, ANELLO_INT32, 1, 3, me.comm, &requests[0]), "isend");
              me.ok(anello_isend(second.data(), count, ANELLO_INT32, 1, 3, me.comm, &requests[1]), "isend");
              me.ok(anello_wait_all(2, requests, nullptr), "wait");
              continue;
            }
            anello_message_t message = ANELLO_MESSAGE_NULL;
            anello_status_t status{};
            me.ok(anello_mprobe(0, 3, me.comm, &message, &status), "mprobe");
            std::vector<std::int32_t> in(count);
            me.ok(anello_recv(in.data(), count, ANELLO_INT32, 0, 3, me.comm, nullptr), "recv");
            if (in != second) me.report.wrong("the receive took the message of the probe");
            anello_message_t copy = message;
            me.ok(anello_mrecv(in.data(), count, ANELLO_INT32, &message, &status), "mrecv");
            if (in != first || !is(status, 0, 3, count)) me.report.wrong("mrecv got another message");
            if (message != ANELLO_MESSAGE_NULL) me.report.wrong("the handle is still there");
            me.fails(anello_mrecv(in.data(), count, ANELLO_INT32, &copy, nullptr), ANELLO_ERR_STATE, "mrecv again");
          }
        }) == "");
}

TEST_CASE("threads that probe and receive by handle get each message once") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  constexpr int kMessages = 300;
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          if (me.rank == 0) {
            for (int i = 0; i < kMessages; ++i) {
              std::vector<std::int32_t> data(i % 5 == 0 ? 5000 : 1, i);
              me.ok(anello_send(data.data(), data.size(), ANELLO_INT32, 1, 4, me.comm), "send");
            }
            return;
          }
          std::vector<std::atomic<int>> times(kMessages);
          std::atomic<int> left{kMessages};
          std::vector<std::thread> threads;
          for (int t = 0; t < 3; ++t) {
            threads.emplace_back([&] {
              std::vector<std::int32_t> in(5000);
              while (left.load() > 0) {
                int flag = 0;
                anello_message_t message = ANELLO_MESSAGE_NULL;
                if (anello_improbe(0, 4, me.comm, &flag, &message, nullptr) != ANELLO_OK) break;
                if (flag == 0) {
                  std::this_thread::yield();
                  continue;
                }
                if (anello_mrecv(in.data(), in.size(), ANELLO_INT32, &message, nullptr) != ANELLO_OK) break;
                ++times[std::size_t(in[0])];
                --left;
              }
            });
          }
          for (std::thread& thread : threads) thread.join();
          for (int i = 0; i < kMessages; ++i) {
            if (times[std::size_t(i)] != 1)
              me.report.wrong("message ", i, " came ", times[std::size_t(i)].load(), " times");
          }
        }) == "");
}

TEST_CASE("nobody's message can be taken out, too") {
  CHECK(run_ranks(1, "inproc", [](const Rank& me) {
          std::int32_t room[2] = {7, 7};
          anello_message_t message = ANELLO_MESSAGE_NULL;
          anello_status_t status{};
          me.ok(anello_mprobe(ANELLO_RANK_NULL, 0, me.comm, &message, &status), "mprobe of nobody");
          me.ok(anello_mrecv(room, 2, ANELLO_INT32, &message, &status), "mrecv of nobody");
          if (!is(status, ANELLO_RANK_NULL, ANELLO_ANY_TAG, 0) || room[0] != 7)
            me.report.wrong("nobody has sent ", status.count);
        }) == "");
}

TEST_CASE("a probe that waits ends with its communicator") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          std::uint8_t ready = 1;
          if (me.rank == 0) {
            me.ok(anello_recv(&ready, 1, ANELLO_UINT8, 1, 1, me.comm, nullptr), "recv");
            me.ok(anello_comm_abort(me.comm, "enough"), "abort");
            return;
          }
          me.ok(anello_send(&ready, 1, ANELLO_UINT8, 0, 1, me.comm), "send");
          me.fails(anello_probe(0, 1, me.comm, nullptr), ANELLO_ERR_ABORTED, "probe");
        }) == "");
}
