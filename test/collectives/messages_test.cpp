#include "support/catch.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace anello::test;

TEST_CASE("messages of every size arrive, posted before or after they are sent") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          for (const std::size_t count :
               {std::size_t(0), std::size_t(1), std::size_t(1024), std::size_t(1025), std::size_t(500'000)}) {
            for (const bool sender_first : {true, false}) {
              std::vector<std::int32_t> data(count + 1, me.rank == 0 ? 5 : -1);
              anello_status_t status{};
              if (me.rank == 0) {
                if (!sender_first) me.ok(anello_barrier(me.comm), "barrier");
                anello_request_t request = ANELLO_REQUEST_NULL;
                me.ok(anello_isend(data.data(), count, ANELLO_INT32, 1, 9, me.comm, &request), "isend");
                if (sender_first) me.ok(anello_barrier(me.comm), "barrier");
                me.ok(anello_wait(&request, nullptr), "wait");
              } else {
                anello_request_t request = ANELLO_REQUEST_NULL;
                if (sender_first) me.ok(anello_barrier(me.comm), "barrier");
                me.ok(anello_irecv(data.data(), count, ANELLO_INT32, 0, 9, me.comm, &request), "irecv");
                if (!sender_first) me.ok(anello_barrier(me.comm), "barrier");
                me.ok(anello_wait(&request, &status), "wait");
                if (status.source != 0 || status.tag != 9 || status.count != count) {
                  me.report.wrong("status is ", status.source, ", ", status.tag, ", ", status.count);
                }
                for (std::size_t i = 0; i < count; ++i) {
                  if (data[i] != 5) {
                    me.report.wrong("element ", i, " of ", count, " is ", data[i]);
                    break;
                  }
                }
              }
            }
          }
        }) == "");
}

TEST_CASE("an empty message arrives also when the credit is used up") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(),
                  [](const Rank& me) {
    constexpr std::size_t kFull = 300;  // of 4 KiB: more than the credit; then empty ones, more than what is left of it
    constexpr std::size_t kMessages = 500;
    std::vector<unsigned char> data(4096);
    std::vector<anello_request_t> requests(kMessages, ANELLO_REQUEST_NULL);
    for (std::size_t i = 0; me.rank == 0 && i < kMessages; ++i) {
      me.ok(anello_isend(data.data(), i < kFull ? data.size() : 0, ANELLO_BYTE, 1, 0, me.comm, &requests[i]), "isend");
    }
    me.ok(anello_barrier(me.comm), "barrier");
    for (std::size_t i = 0; me.rank == 1 && i < kMessages; ++i) {
      anello_status_t status{};
      me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, 0, 0, me.comm, &status), "recv");
      if (status.count != (i < kFull ? data.size() : 0)) me.report.wrong("message ", i, " has ", status.count);
    }
    me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
        }) == "");
}

TEST_CASE("the sender of an RTS hears that it was taken, also of a receiver that leaves while the lane is full") {
  std::atomic<bool> held{false};
  CHECK(run_ranks(3, "inproc",
                  [&held](const Rank& me) {
    // Of 4 KiB as many as go without asking; then empty ones that need an RTS, more than a lane takes answers to.
    constexpr std::size_t kFull = 252, kMessages = 500;
    const auto tag_of = [](std::size_t message) { return message == kMessages - 1 ? 1 : 0; };
    anello_comm_t pair = ANELLO_COMM_NULL;
    me.ok(anello_comm_split(me.comm, me.rank == 1 ? ANELLO_UNDEFINED : 0, 0, &pair), "split");
    std::vector<unsigned char> data(4096);
    std::vector<anello_request_t> requests(kMessages, ANELLO_REQUEST_NULL);
    for (std::size_t i = 0; me.rank == 0 && i < kMessages; ++i) {
      me.ok(anello_isend(data.data(), i < kFull ? data.size() : 0, ANELLO_BYTE, 1, tag_of(i), me.comm, &requests[i]),
            "isend");
    }
    // Until rank 1 knows of all of them rank 0 moves them on, waiting.
    if (me.rank == 1) me.ok(anello_probe(0, 1, me.comm, nullptr), "probe");
    me.ok(anello_barrier(me.comm), "barrier");
    if (me.rank == 1) {
      while (!held) std::this_thread::yield();
      for (std::size_t i = 0; i < kMessages; ++i) {
        me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, 0, tag_of(i), me.comm, nullptr), "recv");
      }
      return;  // and destroys the communicator at once
    }
    // Rank 0 has its lock for a while, so that nobody empties its lane: less than a leaving rank waits for that.
    anello_op_config_t config = ANELLO_OP_CONFIG_INITIALIZER;
    config.name = "slow";
    if (me.rank == 0) config.context = &held;
    config.function = [](void* context, void* into, const void* left, const void*, std::size_t count, anello_dtype_t) {
      std::memmove(into, left, count);
      if (context != nullptr) *static_cast<std::atomic<bool>*>(context) = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    };
    anello_op_t slow{};
    me.ok(anello_op_create(&config, &slow), "op_create");
    unsigned char one = 1;
    me.ok(anello_allreduce(ANELLO_IN_PLACE, &one, 1, ANELLO_UINT8, slow, pair), "allreduce");
    me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
    me.ok(anello_op_free(slow), "op_free");
    me.ok(anello_comm_destroy(pair), "destroy");
        }) == "");
}

TEST_CASE("a small send returns though its receiver waits for another, also after large collectives") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          std::vector<unsigned char> large(180'000), data(4096);
          // Before each the receiver has used more of the credit, without giving back all.
          for (int round = 0; round < 12; ++round) {
            me.ok(anello_broadcast(large.data(), large.size(), ANELLO_BYTE, 0, me.comm), "broadcast");
            for (const int tag : {1, 2, 3}) {
              if (me.rank == 0) me.ok(anello_send(data.data(), data.size(), ANELLO_BYTE, 1, tag, me.comm), "send");
              if (me.rank == 1)
                me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, 0, 4 - tag, me.comm, nullptr), "recv");
            }
          }
        }) == "");
}

TEST_CASE("messages match by source and tag, in order, and by wildcards") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(3, transports.c_str(), [](const Rank& me) {
          if (me.rank != 0) {
            for (int k = 0; k < 50; ++k) {
              // Small and large in turn: a message that needs an RTS must not be overtaken by a later one of its tag.
              std::vector<std::int32_t> data(k % 3 == 0 ? 5000 : 10, 1000 * me.rank + k);
              me.ok(anello_send(data.data(), data.size(), ANELLO_INT32, 0, 7, me.comm), "send");
            }
            std::int32_t last = -me.rank;
            me.ok(anello_send(&last, 1, ANELLO_INT32, 0, 100 + me.rank, me.comm), "send");
            return;
          }
          std::vector<std::int32_t> data(5000);
          anello_status_t status{};
          std::int32_t tagged = 0;
          anello_request_t by_tag = ANELLO_REQUEST_NULL;
          me.ok(anello_irecv(&tagged, 1, ANELLO_INT32, ANELLO_ANY_SOURCE, 102, me.comm, &by_tag), "irecv by tag");
          int next[3] = {0, 0, 0};
          for (int k = 0; k < 100; ++k) {
            me.ok(anello_recv(data.data(), data.size(), ANELLO_INT32, ANELLO_ANY_SOURCE, 7, me.comm, &status), "recv");
            const int expected = 1000 * status.source + next[status.source]++;
            if (data[0] != expected || data[status.count - 1] != expected) {
              me.report.wrong("message ", k, " from ", status.source, " is ", data[0], ", not ", expected);
              break;
            }
          }
          me.ok(anello_recv(data.data(), 1, ANELLO_INT32, 1, ANELLO_ANY_TAG, me.comm, &status), "recv any tag");
          if (status.tag != 101) me.report.wrong("the tag is ", status.tag);
          me.ok(anello_wait(&by_tag, &status), "wait");
          if (status.source != 2 || tagged != -2) me.report.wrong("the message with tag 102 is from ", status.source);
        }) == "");
}

TEST_CASE("a message longer than its receive fails that receive alone") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          for (const std::size_t count : {std::size_t(100), std::size_t(10'000), std::size_t(100'000)}) {
            std::vector<float> data(count, 1.0f);
            if (me.rank == 0) {
              me.ok(anello_send(data.data(), count, ANELLO_FLOAT32, 1, 1, me.comm), "send");
              me.ok(anello_send(data.data(), 10, ANELLO_FLOAT32, 1, 2, me.comm), "send");
            } else {
              anello_status_t status{};
              me.report.expect(anello_recv(data.data(), count / 2, ANELLO_FLOAT32, 0, 1, me.comm, &status),
                               ANELLO_ERR_TRUNCATE, me.comm, "recv of a longer message");
              me.ok(anello_recv(data.data(), count, ANELLO_FLOAT32, 0, 2, me.comm, &status), "recv after that");
              if (status.count != 10) me.report.wrong("the next message has ", status.count, " elements");
            }
          }
        }) == "");
}

TEST_CASE("small messages go at once however many longer ones nobody has received") {
  CHECK(run_ranks(2, "tcp", [](const Rank& me) {
          constexpr std::size_t kLong = 64 * 1024, kLongs = 40, kSmall = 4096, kSmalls = 90;
          std::vector<unsigned char> data(kLong);
          std::vector<anello_request_t> requests(kLongs, ANELLO_REQUEST_NULL);
          for (std::size_t i = 0; me.rank == 0 && i < kLongs; ++i) {
            me.ok(anello_isend(data.data(), kLong, ANELLO_BYTE, 1, 1, me.comm, &requests[i]), "isend");
          }
          for (std::size_t i = 0; me.rank == 0 && i < kSmalls; ++i) {
            me.ok(anello_send(data.data(), kSmall, ANELLO_BYTE, 1, 2, me.comm), "send");
          }
          me.ok(anello_barrier(me.comm), "barrier");
          for (std::size_t i = 0; me.rank == 1 && i < kLongs + kSmalls; ++i) {
            const int tag = i < kLongs ? 1 : 2;
            me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, 0, tag, me.comm, nullptr), "recv");
          }
          me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
        }) == "");
}

TEST_CASE("messages that do not fit a receive that waits use up no credit") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          constexpr std::size_t kMessages = 400;  // more than the credit for them
          std::vector<unsigned char> data(4096, static_cast<unsigned char>(1 - me.rank));
          std::vector<anello_request_t> requests(kMessages, ANELLO_REQUEST_NULL);
          for (std::size_t i = 0; me.rank == 1 && i < kMessages; ++i) {
            me.ok(anello_irecv(data.data(), i % 8, ANELLO_BYTE, 0, 1, me.comm, &requests[i]), "irecv");
          }
          me.ok(anello_barrier(me.comm), "barrier");
          for (std::size_t i = 0; me.rank == 0 && i < kMessages; ++i) {
            me.ok(anello_send(data.data(), data.size(), ANELLO_BYTE, 1, 1, me.comm), "send");
          }
          for (std::size_t i = 0; me.rank == 1 && i < kMessages; ++i) {
            me.report.expect(anello_wait(&requests[i], nullptr), ANELLO_ERR_TRUNCATE, me.comm, "wait");
          }
          if (me.rank == 1 && data[0] != 0) me.report.wrong("a message that does not fit was written");
          // Returns though nobody has posted a receive.
          if (me.rank == 0) me.ok(anello_send(data.data(), data.size(), ANELLO_BYTE, 1, 2, me.comm), "send");
          me.ok(anello_barrier(me.comm), "barrier");
          if (me.rank == 1) me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, 0, 2, me.comm, nullptr), "recv");
          if (me.rank == 1 && data[4095] != 1) me.report.wrong("the last message did not arrive");
        }) == "");
}

TEST_CASE("a rank sends to itself") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          for (const std::size_t count : {std::size_t(3), std::size_t(50'000)}) {
            std::vector<double> out(count, 1.5 + me.rank), in(count, 0.0);
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_isend(out.data(), count, ANELLO_FLOAT64, me.rank, 3, me.comm, &request), "isend");
            me.ok(anello_recv(in.data(), count, ANELLO_FLOAT64, me.rank, 3, me.comm, nullptr), "recv");
            me.ok(anello_wait(&request, nullptr), "wait");
            if (in != out) me.report.wrong("what came back differs");
          }
        }) == "");
}

TEST_CASE("both ranks send first, and it works for small messages") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          std::vector<std::uint8_t> out(4096, std::uint8_t(me.rank)), in(4096);
          for (int i = 0; i < 20; ++i) {
            me.ok(anello_send(out.data(), out.size(), ANELLO_UINT8, 1 - me.rank, 0, me.comm), "send");
            me.ok(anello_recv(in.data(), in.size(), ANELLO_UINT8, 1 - me.rank, 0, me.comm, nullptr), "recv");
            if (in[4095] != 1 - me.rank) me.report.wrong("got ", int(in[4095]));
          }
        }) == "");
}

namespace {

struct Sent {
  int from;
  std::size_t bytes;
  int tag;
  bool waits_sending, waits_receiving, any_tag;
};

std::vector<Sent> random_messages(unsigned seed, std::size_t count) {
  std::minstd_rand random(seed);
  const auto below = [&](unsigned end) { return unsigned(random() % end); };
  std::vector<Sent> messages;
  for (std::size_t i = 0; i < count; ++i) {
    constexpr std::size_t kSizes[] = {0, 1, 8, 16, 17, 63, 64, 65, 1000, 4096, 4097, 20'000, 300'000};
    const std::size_t bytes = kSizes[below(100) < 90 ? below(10) : below(13)];
    messages.push_back({int(below(8) < 4), bytes, int(below(3)), below(4) > 0, below(4) > 0, below(4) == 0});
  }
  return messages;
}

unsigned char value(std::size_t message, std::size_t i) {
  return static_cast<unsigned char>(message * 31 + i * 7 + i / 251);
}

}  // namespace

TEST_CASE("messages in any mixture of calls and sizes arrive in their order, whole") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const auto seed = GENERATE(1u, 2u, 3u);
  CAPTURE(transports, seed);
  const std::vector<Sent> messages = random_messages(seed, 3000);
  CHECK(run_ranks(2, transports.c_str(),
                  [&](const Rank& me) {
    std::vector<std::vector<unsigned char>> memory(messages.size());
    std::vector<anello_request_t> requests(messages.size(), ANELLO_REQUEST_NULL);
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const Sent& each = messages[m];
      memory[m].resize(each.bytes + 1);
      if (each.from == me.rank) {
        for (std::size_t i = 0; i < each.bytes; ++i) memory[m][i] = value(m, i);
        // A large one that waits would wait for a receive that the other rank may have posted only behind its own.
        const bool waits = each.waits_sending && each.bytes <= 4096;
        if (waits)
          me.ok(anello_send(memory[m].data(), each.bytes, ANELLO_BYTE, 1 - me.rank, each.tag, me.comm), "send");
        if (!waits)
          me.ok(anello_isend(memory[m].data(), each.bytes, ANELLO_BYTE, 1 - me.rank, each.tag, me.comm, &requests[m]),
                "isend");
      } else if (each.waits_receiving) {
        anello_status_t status{};
        const int tag = each.any_tag ? ANELLO_ANY_TAG : each.tag;
        me.ok(anello_recv(memory[m].data(), each.bytes, ANELLO_BYTE, 1 - me.rank, tag, me.comm, &status), "recv");
        if (status.source != 1 - me.rank || status.tag != each.tag || status.count != each.bytes) {
          me.report.wrong("message ", m, ": source ", status.source, ", tag ", status.tag, ", count ", status.count);
        }
      } else {
        me.ok(anello_irecv(memory[m].data(), each.bytes, ANELLO_BYTE, 1 - me.rank, each.tag, me.comm, &requests[m]),
              "irecv");
      }
    }
    me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
    for (std::size_t m = 0; m < messages.size(); ++m) {
      for (std::size_t i = 0; i < messages[m].bytes; ++i) {
        if (memory[m][i] == value(m, i)) continue;
        me.report.wrong("byte ", i, " of message ", m, " (", messages[m].bytes, " bytes) is wrong");
        break;
      }
    }
        }) == "");
}

TEST_CASE("small sends wait for room in a full lane, and what is left of one follows") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CAPTURE(transports);
  // Each communicator has credit of its own, less than this; together it is more than any lane holds.
  constexpr int kComms = 24;
  constexpr std::size_t kMessages = 400, kBytes = 3001;
  CHECK(run_ranks(2, transports.c_str(), [&](const Rank& me) {
          std::vector<anello_comm_t> comms(kComms, ANELLO_COMM_NULL);
          for (anello_comm_t& comm : comms) me.ok(anello_comm_dup(me.comm, &comm), "dup");
          std::vector<unsigned char> data(kBytes);
          for (int c = 0; c < kComms; ++c) {
            if (me.rank == 1 && c == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
            for (std::size_t m = 0; m < kMessages; ++m) {
              const std::size_t name = std::size_t(c) * kMessages + m;
              if (me.rank == 0) {
                for (std::size_t i = 0; i < kBytes; ++i) data[i] = value(name, i);
                me.ok(anello_send(data.data(), kBytes, ANELLO_BYTE, 1, 0, comms[std::size_t(c)]), "send");
                continue;
              }
              me.ok(anello_recv(data.data(), kBytes, ANELLO_BYTE, 0, 0, comms[std::size_t(c)], nullptr), "recv");
              for (std::size_t i = 0; i < kBytes; ++i) {
                if (data[i] == value(name, i)) continue;
                me.report.wrong("byte ", i, " of message ", m, " on communicator ", c, " is wrong");
                break;
              }
            }
          }
          for (anello_comm_t& comm : comms) me.ok(anello_comm_destroy(comm), "destroy");
        }) == "");
}

TEST_CASE(
    "a blocking receive of another type or too little room says so, and the next message comes as if nothing had "
    "happened") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          float two[2] = {1, 2};
          for (int turn = 0; turn < 3; ++turn) {
            if (me.rank == 0) {
              for (int i = 0; i < 3; ++i) me.ok(anello_send(two, 2, ANELLO_FLOAT32, 1, 5, me.comm), "send");
            } else {
              std::int32_t other[2] = {7, 7};
              float got[2] = {0, 0};
              me.fails(anello_recv(other, 2, ANELLO_INT32, 0, 5, me.comm, nullptr), ANELLO_ERR_MISMATCH,
                       "recv of another type");
              me.fails(anello_recv(got, 1, ANELLO_FLOAT32, 0, 5, me.comm, nullptr), ANELLO_ERR_TRUNCATE,
                       "recv of too little");
              if (other[0] != 7 || got[0] != 0) me.report.wrong("a refused message was stored");
              me.ok(anello_recv(got, 2, ANELLO_FLOAT32, 0, 5, me.comm, nullptr), "recv");
              if (got[1] != 2) me.report.wrong("element 1 is ", got[1]);
            }
            me.ok(anello_barrier(me.comm), "barrier");
          }
        }) == "");
}

TEST_CASE("blocking receives take tags in another order than they were sent") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CAPTURE(transports);
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          for (int turn = 0; turn < 10; ++turn) {
            for (const int tag : {1, 2, 3}) {
              int value = 10 * turn + tag;
              if (me.rank == 0) me.ok(anello_send(&value, 1, ANELLO_INT32, 1, tag, me.comm), "send");
            }
            for (const int tag : {3, 1, 2}) {
              int value = 0;
              if (me.rank == 1) me.ok(anello_recv(&value, 1, ANELLO_INT32, 0, tag, me.comm, nullptr), "recv");
              if (me.rank == 1 && value != 10 * turn + tag)
                me.report.wrong("tag ", tag, " of turn ", turn, " brought ", value);
            }
          }
        }) == "");
}

TEST_CASE("a blocking receive hears of a large message whose announcement was there first, among many connections") {
  // Four ranks: with three sockets each a rank asks all of them at once, and looks only at those that have something.
  CHECK(run_ranks(4, "tcp", [](const Rank& me) {
          std::vector<unsigned char> data(1 << 20, static_cast<unsigned char>(me.rank)), all(4);
          for (int from = 0; from < 4; ++from) {
            for (int to = 0; to < 4; ++to) {
              if (from == to) continue;
              if (me.rank == from) me.ok(anello_send(data.data(), 1, ANELLO_BYTE, to, 0, me.comm), "send");
              if (me.rank == to) me.ok(anello_recv(all.data(), 1, ANELLO_BYTE, from, 0, me.comm, nullptr), "recv");
            }
          }
          // An empty one of another tag is as short.
          for (const std::size_t bytes : {data.size(), std::size_t(0)}) {
            if (me.rank == 1) {
              if (bytes == 0) me.ok(anello_send(data.data(), 0, ANELLO_BYTE, 0, 2, me.comm), "send");
              me.ok(anello_send(data.data(), bytes, ANELLO_BYTE, 0, 1, me.comm), "send");
            }
            if (me.rank == 0) {
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              me.ok(anello_recv(data.data(), bytes, ANELLO_BYTE, 1, 1, me.comm, nullptr), "recv");
              if (bytes == 0) me.ok(anello_recv(data.data(), 0, ANELLO_BYTE, 1, 2, me.comm, nullptr), "recv");
              if (data[0] != 1) me.report.wrong("the message has ", int(data[0]));
            }
            me.ok(anello_barrier(me.comm), "barrier");
          }
        }) == "");
}
