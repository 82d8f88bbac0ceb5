// Messages that their receiver takes from where they lie: in memory that it has mapped, or reads by system call.
#include "collectives/taking.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace anello::test;

namespace {

// Of a size that is got also where ranks share processors.
constexpr std::size_t kOffered = 100'000;

// From `from` to `to`, again and again, until the receiver has mapped what lies at data and takes it from there.
bool comes_to_take(const Rank& me, anello_comm_t comm, int from, int to, unsigned char* data, std::size_t bytes) {
  std::vector<unsigned char> into(bytes);
  unsigned char again = 1;
  for (unsigned round = 0; again != 0; ++round) {
    if (me.rank == from) {
      fill(data, bytes, round);
      me.ok(anello_send(data, bytes, ANELLO_BYTE, to, 77, comm), "send");
      me.ok(anello_recv(&again, 1, ANELLO_BYTE, to, 78, comm, nullptr), "recv");
    } else {
      const std::uint64_t before = taken(me, comm);
      me.ok(anello_recv(into.data(), bytes, ANELLO_BYTE, from, 77, comm, nullptr), "recv");
      if (!holds(into.data(), bytes, round)) me.report.wrong("another message came than that of round ", round);
      again = taken(me, comm) == before && round < 1000;
      if (again != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      me.ok(anello_send(&again, 1, ANELLO_BYTE, from, 78, comm), "send");
      if (round == 1000) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE(
    "a message is taken from memory that the receiver has mapped, and no more from there once it is not registered") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Memory mapped(1'000'000);
          if (!comes_to_take(me, me.comm, 0, 1, mapped.data() + 777, kOffered))
            me.report.wrong("nothing is taken of anello_mem_alloc");
          if (!comes_to_take(me, me.comm, 1, 0, mapped.data(), 1'000'000))
            me.report.wrong("nothing is taken the other way");

          constexpr std::size_t kBytes = 32 * 4096;
          auto* const own = static_cast<unsigned char*>(std::aligned_alloc(4096, kBytes));
          me.ok(anello_register(own, kBytes), "register");
          if (!comes_to_take(me, me.comm, 0, 1, own, kBytes)) me.report.wrong("nothing is taken of registered memory");
          me.ok(anello_deregister(own), "deregister");
          const std::uint64_t before = taken(me, me.comm);
          for (unsigned round = 0; round < 5; ++round) {
            if (me.rank == 0) {
              fill(own, kBytes, 500 + round);
              me.ok(anello_send(own, kBytes, ANELLO_BYTE, 1, 1, me.comm), "send");
            } else {
              me.ok(anello_recv(own, kBytes, ANELLO_BYTE, 0, 1, me.comm, nullptr), "recv");
              if (!holds(own, kBytes, 500 + round)) me.report.wrong("what came is not what was sent");
            }
          }
          if (taken(me, me.comm) != before) me.report.wrong("a message was taken of memory that is registered no more");
          std::free(own);
        }) == "");
}

TEST_CASE("threads with each other's pointers, and ranks over sockets, get nothing") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          const Memory mapped(kOffered);
          std::vector<unsigned char> into(kOffered);
          for (unsigned round = 0; round < 20; ++round) {
            if (me.rank == 0) {
              fill(mapped.data(), kOffered, round);
              me.ok(anello_send(mapped.data(), kOffered, ANELLO_BYTE, 1, 1, me.comm), "send");
            } else {
              me.ok(anello_recv(into.data(), kOffered, ANELLO_BYTE, 0, 1, me.comm, nullptr), "recv");
              if (!holds(into.data(), kOffered, round)) me.report.wrong("what came is not what was sent");
            }
          }
          me.ok(anello_barrier(me.comm), "barrier");
          if (taken(me, me.comm) + taken(me, me.comm, "read") != 0) me.report.wrong("a message was taken");
        }) == "");
}

TEST_CASE("messages that lie in no region are read by system call, from some size on and up to one") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          constexpr std::size_t kMost = 9'000'000;
          std::vector<unsigned char> memory(kMost);
          // What two ranks read depends on whether each has a processor for itself, and with eight ranks to two
          // processors none has.
          for (const std::size_t bytes : {std::size_t(8'000), kOffered, std::size_t(1'000'000), kMost}) {
            for (unsigned round = 0; round < 10; ++round) {
              const std::uint64_t before = taken(me, me.comm, "read");
              const bool blocking = round % 2 == 0;
              anello_request_t request = ANELLO_REQUEST_NULL;
              if (me.rank == 0) {
                fill(memory.data(), bytes, round);
                if (blocking)
                  me.ok(anello_send(memory.data(), bytes, ANELLO_BYTE, 1, 1, me.comm), "send");
                else
                  me.ok(anello_isend(memory.data(), bytes, ANELLO_BYTE, 1, 1, me.comm, &request), "isend");
              } else {
                std::memset(memory.data(), 0, bytes);
                if (blocking)
                  me.ok(anello_recv(memory.data(), bytes, ANELLO_BYTE, 0, 1, me.comm, nullptr), "recv");
                else
                  me.ok(anello_irecv(memory.data(), bytes, ANELLO_BYTE, 0, 1, me.comm, &request), "irecv");
              }
              if (!blocking) me.ok(anello_wait(&request, nullptr), "wait");
              if (me.rank == 0) continue;
              if (!holds(memory.data(), bytes, round)) me.report.wrong("what came is not what was sent");
              const std::uint64_t read = taken(me, me.comm, "read") - before;
              const bool is_read = bytes == kOffered || bytes == 1'000'000;
              if (read != (is_read ? 1u : 0u))
                me.report.wrong("of ", bytes, " bytes in round ", round, " ", read, " messages were read");
            }
          }
        }) == "");
}

TEST_CASE("messages that are got keep their order among all others, also for receives from anybody") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          constexpr std::size_t kSizes[] = {0, 8, 4096, 9000, 70'000, 300'000, 1'000'000};
          constexpr std::size_t kMost = 1'000'000;
          constexpr unsigned kMessages = 30, kRounds = 12;
          const Memory mapped(kMost * 4);
          std::vector<unsigned char> heap(kMost);
          std::mt19937 random(unsigned(me.rank) + 1);
          unsigned next[3] = {};
          for (unsigned round = 0; round < kRounds; ++round) {
            if (me.rank > 0) {
              // What is under way stays as it is: each has its own place, and the seed is the place's.
              fill(heap.data(), kMost, 100);
              for (unsigned place = 0; place < 4; ++place) fill(mapped.data() + place * kMost, kMost, place);
              std::vector<anello_request_t> requests(2 * kMessages, ANELLO_REQUEST_NULL);
              std::vector<std::uint32_t> said(2 * kMessages);
              for (unsigned message = 0; message < kMessages; ++message) {
                const unsigned place = random() % 5;
                const std::size_t bytes = kSizes[random() % std::size(kSizes)];
                const unsigned char* const data = place == 4 ? heap.data() : mapped.data() + place * kMost;
                said[2 * message] = message;
                said[2 * message + 1] = place == 4 ? 100 : place;
                me.ok(anello_isend(&said[2 * message], 2, ANELLO_UINT32, 0, me.rank, me.comm, &requests[2 * message]),
                      "isend");
                me.ok(anello_isend(data, bytes, ANELLO_BYTE, 0, me.rank, me.comm, &requests[2 * message + 1]), "isend");
              }
              me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
            } else {
              for (unsigned message = 0; message < 2 * kMessages; ++message) {
                std::uint32_t said[2] = {};
                anello_status_t status{};
                // Its first part by any rank, the second by the same one: that has no other way to be told of.
                me.ok(anello_probe(ANELLO_ANY_SOURCE, ANELLO_ANY_TAG, me.comm, &status), "probe");
                const int source = status.source;
                me.ok(anello_recv(said, 2, ANELLO_UINT32, ANELLO_ANY_SOURCE, status.tag, me.comm, &status), "recv");
                if (said[0] != next[source]++ % kMessages)
                  me.report.wrong("message ", said[0], " of rank ", source, " is out of its turn");
                std::memset(heap.data(), 0, kMost);
                const int from = random() % 2 == 0 ? source : ANELLO_ANY_SOURCE;
                me.ok(anello_recv(heap.data(), kMost, ANELLO_BYTE, from, source, me.comm, &status), "recv");
                if (!holds(heap.data(), status.count, said[1]))
                  me.report.wrong("message ", said[0], " of rank ", source, " is another");
              }
            }
          }
          if (me.rank != 0) return;
          for (const char* how : {"mapped", "read"}) {
            if (taken(me, me.comm, how) < 10)
              me.report.wrong("only ", taken(me, me.comm, how), " messages were taken of what is ", how);
          }
        }) == "");
}

TEST_CASE("a message that is got is probed, claimed and received like any other") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Memory first(kOffered), second(kOffered);
          comes_to_take(me, me.comm, 0, 1, first.data(), kOffered);
          comes_to_take(me, me.comm, 0, 1, second.data(), kOffered);
          if (me.rank == 0) {
            fill(first.data(), kOffered, 1);
            fill(second.data(), kOffered, 2);
            anello_request_t requests[2] = {};
            me.ok(anello_isend(first.data(), kOffered, ANELLO_BYTE, 1, 3, me.comm, &requests[0]), "isend");
            me.ok(anello_isend(second.data(), kOffered, ANELLO_BYTE, 1, 3, me.comm, &requests[1]), "isend");
            me.ok(anello_wait_all(2, requests, nullptr), "wait_all");
            return;
          }
          const std::uint64_t before = taken(me, me.comm);
          anello_message_t message = ANELLO_MESSAGE_NULL;
          anello_status_t status{};
          me.ok(anello_probe(ANELLO_ANY_SOURCE, ANELLO_ANY_TAG, me.comm, &status), "probe");
          if (status.source != 0 || status.tag != 3 || status.count != kOffered)
            me.report.wrong("probe says ", status.count);
          me.ok(anello_mprobe(0, 3, me.comm, &message, &status), "mprobe");
          if (status.source != 0 || status.tag != 3 || status.count != kOffered)
            me.report.wrong("mprobe says ", status.count);
          std::vector<unsigned char> into(kOffered);
          me.ok(anello_recv(into.data(), kOffered, ANELLO_BYTE, 0, 3, me.comm, nullptr), "recv");
          if (!holds(into.data(), kOffered, 2)) me.report.wrong("the receive took the message of the probe");
          me.ok(anello_mrecv(into.data(), kOffered, ANELLO_BYTE, &message, &status), "mrecv");
          if (!holds(into.data(), kOffered, 1) || status.count != kOffered)
            me.report.wrong("mrecv got another message");
          if (taken(me, me.comm) != before + 2) me.report.wrong(taken(me, me.comm) - before, " of the two were taken");
        }) == "");
}

TEST_CASE("a message whose RTS told its place and that does not fit its receive is that receive's error alone") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Memory memory(kOffered);
          std::vector<unsigned char> into(kOffered, 9);
          comes_to_take(me, me.comm, 0, 1, memory.data(), kOffered);
          for (const bool late : {false, true}) {
            if (me.rank == 0) {
              fill(memory.data(), kOffered, 4);
              anello_request_t requests[3] = {};
              for (anello_request_t& request : requests) {
                me.ok(anello_isend(memory.data(), kOffered, ANELLO_BYTE, 1, 3, me.comm, &request), "isend");
              }
              if (late) me.ok(anello_barrier(me.comm), "barrier");
              me.ok(anello_wait_all(3, requests, nullptr), "wait_all");
              continue;
            }
            if (late) me.ok(anello_barrier(me.comm), "barrier");
            std::fill(into.begin(), into.end(), 9);
            me.fails(anello_recv(into.data(), kOffered - 1, ANELLO_BYTE, 0, 3, me.comm, nullptr), ANELLO_ERR_TRUNCATE,
                     "recv of less");
            me.fails(anello_recv(into.data(), kOffered, ANELLO_INT8, 0, 3, me.comm, nullptr), ANELLO_ERR_MISMATCH,
                     "recv of another type");
            if (into[0] != 9 || into[kOffered - 2] != 9)
              me.report.wrong("a receive that failed has changed its buffer");
            me.ok(anello_recv(into.data(), kOffered, ANELLO_BYTE, 0, 3, me.comm, nullptr), "recv");
            if (!holds(into.data(), kOffered, 4)) me.report.wrong("then came another message");
          }
        }) == "");
}

TEST_CASE("a ring of sendrecv in mapped memory, to oneself and to others, once and persistent") {
  const int ranks = GENERATE(1, 2, 3);
  CHECK(run_ranks(ranks, "shm",
                  [](const Rank& me) {
    const int next = (me.rank + 1) % me.size, prev = (me.rank + me.size - 1) % me.size;
    for (const std::size_t bytes : {std::size_t(8192), kOffered, std::size_t(3'000'000)}) {
      const Memory out(bytes), in(bytes);
      anello_request_t request = ANELLO_REQUEST_NULL;
      me.ok(anello_sendrecv_init(out.data(), bytes, next, 3, in.data(), bytes, prev, 3, ANELLO_BYTE, me.comm, &request),
            "init");
      for (unsigned round = 0; round < 20; ++round) {
        fill(out.data(), bytes, unsigned(me.rank) + 10 * round);
        if (round % 2 == 0) {
          me.ok(anello_start(&request), "start");
          me.ok(anello_wait(&request, nullptr), "wait");
        } else {
          me.ok(anello_sendrecv(out.data(), bytes, next, 4, in.data(), bytes, prev, 4, ANELLO_BYTE, me.comm, nullptr),
                "sendrecv");
        }
        if (!holds(in.data(), bytes, unsigned(prev) + 10 * round))
          me.report.wrong("round ", round, " of ", bytes, " brought another");
      }
      me.ok(anello_request_free(&request), "free");
    }
        }) == "");
}

// The sender ends while the receiver may be in the middle of its copy, and uses its memory for something else at once.
TEST_CASE("a message whose sender gave up is not received, or whole") {
  constexpr std::size_t kBytes = 8 * 1024 * 1024;
  constexpr int kRounds = 60;
  std::atomic<int> arrived{0};
  const auto meet = [&](int round) {
    ++arrived;
    while (arrived < 2 * (round + 1)) std::this_thread::yield();
  };
  std::atomic<int> well{0}, ended{0};
  CHECK(run_ranks(2, "shm",
                  [&](const Rank& me) {
    const Memory memory(kBytes);
    std::vector<unsigned char> into(kBytes, 1);
    comes_to_take(me, me.comm, 0, 1, memory.data(), kBytes);
    // As long as a copy takes, in this build and on this machine.
    me.ok(anello_barrier(me.comm), "barrier");
    const auto begin = std::chrono::steady_clock::now();
    if (me.rank == 0) me.ok(anello_send(memory.data(), kBytes, ANELLO_BYTE, 1, 3, me.comm), "send");
    if (me.rank == 1) me.ok(anello_recv(into.data(), kBytes, ANELLO_BYTE, 0, 3, me.comm, nullptr), "recv");
    const auto copy = std::chrono::steady_clock::now() - begin;
    std::mt19937 random(3);
    for (int round = 0; round < kRounds; ++round) {
      anello_comm_t pair = ANELLO_COMM_NULL;
      me.ok(anello_comm_dup(me.comm, &pair), "dup");
      std::memset(memory.data(), 0x55, kBytes);
      anello_request_t request = ANELLO_REQUEST_NULL;
      if (me.rank == 0) me.ok(anello_isend(memory.data(), kBytes, ANELLO_BYTE, 1, 3, pair, &request), "isend");
      if (me.rank == 1) me.ok(anello_probe(0, 3, pair, nullptr), "probe");
      me.ok(anello_barrier(me.comm), "barrier");
      const bool before = round % 10 == 1, behind = round % 10 == 2;  // else in the middle, perhaps
      if (before && me.rank == 0) me.ok(anello_comm_abort(pair, "given up"), "abort");
      meet(round);
      if (me.rank == 0) {
        const auto end = std::chrono::steady_clock::now() + copy * (random() % 128) / 64;
        while (std::chrono::steady_clock::now() < end) {
        }
        if (behind) me.ok(anello_wait(&request, nullptr), "wait");
        if (!before) me.ok(anello_comm_abort(pair, "given up"), "abort");
        anello_wait(&request, nullptr);
        std::memset(memory.data(), 0xaa, kBytes);
      } else if (anello_recv(into.data(), kBytes, ANELLO_BYTE, 0, 3, pair, nullptr) == ANELLO_OK) {
        ++well;
        const auto other = std::find_if(into.begin(), into.end(), [](unsigned char byte) { return byte != 0x55; });
        if (other != into.end())
          me.report.wrong("round ", round, ": from byte ", other - into.begin(), " on it is what was written later");
      } else {
        ++ended;
      }
      anello_comm_destroy(pair);
    }
    // On the same board, where the last sender had given up.
    anello_comm_t after = ANELLO_COMM_NULL;
    me.ok(anello_comm_dup(me.comm, &after), "dup");
    if (!comes_to_take(me, after, 0, 1, memory.data(), kOffered))
      me.report.wrong("later communicators take nothing any more");
    me.ok(anello_comm_destroy(after), "destroy");
        }) == "");
  INFO(well << " received, " << ended << " not");
  CHECK(well > 0);
  CHECK(ended > 0);
}

TEST_CASE("a send whose RTS told its place ends at its deadline, and with its receiver") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Memory memory(kOffered);
          std::vector<unsigned char> into(kOffered);
          comes_to_take(me, me.comm, 0, 1, memory.data(), kOffered);
          anello_comm_t timed = ANELLO_COMM_NULL, left = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &timed), "dup");
          me.ok(anello_comm_dup(me.comm, &left), "dup");
          if (me.rank == 0) {
            anello_call_t call = ANELLO_CALL_INITIALIZER;
            call.kind = ANELLO_SEND;
            call.sendbuf = memory.data();
            call.count = kOffered;
            call.dtype = ANELLO_BYTE;
            call.peer = 1;
            call.timeout_ms = 100;
            me.fails(anello_post(timed, &call, nullptr), ANELLO_ERR_TIMEOUT, "send to one who does not receive");
            std::memset(memory.data(), 0, kOffered);
          }
          me.ok(anello_barrier(me.comm), "barrier");
          if (me.rank == 1)
            me.fails(anello_recv(into.data(), kOffered, ANELLO_BYTE, 0, 0, timed, nullptr), ANELLO_ERR_TIMEOUT, "recv");
          anello_comm_destroy(timed);
          if (me.rank == 0)
            me.fails(anello_send(memory.data(), kOffered, ANELLO_BYTE, 1, 0, left), ANELLO_ERR_PEER_LOST,
                     "send to one who leaves");
          anello_comm_destroy(left);
        }) == "");
}
