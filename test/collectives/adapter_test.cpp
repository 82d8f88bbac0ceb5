// What an adapter takes from a peer's memory without that peer's help. Runs in tools/rdma-vm.
#include "collectives/taking.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <cstdlib>
#include <cstring>
#include <vector>

using namespace anello::test;

namespace {

// Rank 0 sends, and rank 1 returns how many of the messages its adapter got.
std::uint64_t stream_over_verbs(const Rank& me, anello_comm_t comm, unsigned char* data, std::size_t bytes,
                                unsigned messages) {
  const std::uint64_t before = taken(me, comm, "rdma");
  for (unsigned message = 0; message < messages; ++message) {
    if (me.rank == 0) {
      fill(data, bytes, message);
      me.ok(anello_send(data, bytes, ANELLO_BYTE, 1, 1, comm), "send");
    } else {
      std::memset(data, 0, bytes);
      me.ok(anello_recv(data, bytes, ANELLO_BYTE, 0, 1, comm, nullptr), "recv");
      if (!holds(data, bytes, message)) me.report.wrong("message ", message, " is not what was sent");
    }
  }
  me.ok(anello_barrier(comm), "barrier");
  return taken(me, comm, "rdma") - before;
}

}  // namespace

TEST_CASE("an adapter gets long messages between registered buffers, and all others go over the lane", "[.adapter]") {
  CHECK(run_ranks(2, "verbs", [](const Rank& me) {
          constexpr std::size_t kBytes = 16 * 1024 * 1024;
          const Memory mapped(kBytes);
          const auto expect = [&](std::uint64_t got, std::uint64_t least, std::uint64_t most, const char* what) {
            if (me.rank == 1 && (got < least || got > most)) me.report.wrong(what, ": the adapter got ", got);
          };
          // The lane may not know yet that its other end is ready when the first message comes.
          expect(stream_over_verbs(me, me.comm, mapped.data(), kBytes, 3), 2, 3, "16 MiB");
          expect(stream_over_verbs(me, me.comm, mapped.data() + 13, 64 * 1024 + 1, 3), 3, 3, "64 KiB and a byte");
          expect(stream_over_verbs(me, me.comm, mapped.data(), 64 * 1024, 3), 0, 0, "64 KiB");
          std::vector<unsigned char> elsewhere(300'000);
          for (const int unregistered : {0, 1}) {
            unsigned char* const data = me.rank == unregistered ? elsewhere.data() : mapped.data();
            expect(stream_over_verbs(me, me.comm, data, elsewhere.size(), 3), 0, 0, "memory that is not registered");
          }
          expect(stream_over_verbs(me, me.comm, mapped.data(), elsewhere.size(), 3), 3, 3, "300 KB");
        }) == "");
}

TEST_CASE("a send that ends with an error takes its buffer back from the receiver's adapter", "[.adapter]") {
  CHECK(run_ranks(2, "verbs", [](const Rank& me) {
          constexpr std::size_t kBytes = 32 * 1024 * 1024;
          const Memory mapped(kBytes);
          anello_comm_t other = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &other), "dup");
          stream_over_verbs(me, me.comm, mapped.data(), 300'000, 2);
          fill(mapped.data(), kBytes, unsigned(me.rank));
          anello_request_t request = ANELLO_REQUEST_NULL;
          anello_result_t ended = ANELLO_OK;
          if (me.rank == 0) {
            me.ok(anello_isend(mapped.data(), kBytes, ANELLO_BYTE, 1, 1, other, &request), "isend");
            int done = 0;
            for (int turn = 0; turn < 20 && done == 0; ++turn) anello_test(&request, &done, nullptr);
            anello_comm_abort(other, "given up");
            ended = anello_wait(&request, nullptr);
            std::memset(mapped.data(), 0xee, kBytes);
          } else {
            ended = anello_recv(mapped.data(), kBytes, ANELLO_BYTE, 0, 1, other, nullptr);
          }
          // The receive may have got all before.
          if (me.rank == 1 && ended == ANELLO_OK && !holds(mapped.data(), kBytes, 0))
            me.report.wrong("the adapter got what the sender's caller wrote after the error");
          if (ended != ANELLO_ERR_ABORTED && ended != ANELLO_OK) me.report.wrong("ended with ", ended);
          anello_comm_destroy(other);
          // By the lane, if the adapters' connection for memory has ended.
          stream_over_verbs(me, me.comm, mapped.data(), 300'000, 3);
        }) == "");
}

namespace {

constexpr std::size_t kFloats = 500'000;

// Of rank `rank` at i. Sums of a few are exact.
float value(int rank, std::size_t i) { return float((rank + 1) * int(i % 89 + 1)); }

// An all-reduce from one buffer to the other, or in place if they are the same. Returns how many messages the rank's
// adapter got.
std::uint64_t summed_over_verbs(const Rank& me, float* from, float* into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) from[i] = value(me.rank, i);
  const std::uint64_t before = taken(me, me.comm, "rdma", ANELLO_BARRIER);
  const void* const input = from == into ? ANELLO_IN_PLACE : from;
  me.ok(anello_allreduce(input, into, count, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "allreduce");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += into[i] != value(me.size * (me.size + 1) / 2 - 1, i);
  if (wrong > 0) me.report.wrong("rank ", me.rank, ": ", wrong, " wrong sums");
  return taken(me, me.comm, "rdma", ANELLO_BARRIER) - before;
}

}  // namespace

TEST_CASE("an adapter gets what collectives send from registered buffers, and combines it piece by piece",
          "[.adapter]") {
  for (const int ranks : {2, 3}) {
    CHECK(run_ranks(ranks, "verbs", [](const Rank& me) {
            const Memory a(kFloats * sizeof(float)), b(kFloats * sizeof(float));
            auto* const from = reinterpret_cast<float*>(a.data());
            auto* const into = reinterpret_cast<float*>(b.data());
            std::vector<float> elsewhere(kFloats);
            summed_over_verbs(me, from, from, kFloats);  // opens the lanes
            const auto expect = [&](std::uint64_t got, bool some, const char* what) {
              if ((got > 0) != some) me.report.wrong(what, ": the adapter got ", got);
            };
            expect(summed_over_verbs(me, from, from, kFloats), true, "in place");
            expect(summed_over_verbs(me, from, into, kFloats), true, "two buffers");
            expect(summed_over_verbs(me, elsewhere.data(), elsewhere.data(), kFloats), false, "not registered");
            expect(summed_over_verbs(me, from, from, 1000), false, "short");
            for (int root = 0; root < me.size; ++root) {
              if (me.rank == root) fill(a.data(), kFloats, unsigned(root));
              me.ok(anello_broadcast(a.data(), kFloats, ANELLO_BYTE, root, me.comm), "broadcast");
              if (!holds(a.data(), kFloats, unsigned(root))) me.report.wrong("broadcast of ", root);
            }
            const std::size_t part = kFloats / std::size_t(me.size);
            for (std::size_t i = 0; i < kFloats; ++i) from[i] = value(me.rank, i);
            const std::uint64_t before = taken(me, me.comm, "rdma", ANELLO_BARRIER);
            me.ok(anello_reduce_scatter_block(from, into, part, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "reduce_scatter");
            expect(taken(me, me.comm, "rdma", ANELLO_BARRIER) - before, true, "reduce_scatter");
            for (std::size_t i = 0; i < part; ++i) {
              if (into[i] == value(me.size * (me.size + 1) / 2 - 1, std::size_t(me.rank) * part + i)) continue;
              me.report.wrong("reduce_scatter: wrong at ", i);
              break;
            }
            fill(a.data(), part * sizeof(float), unsigned(me.rank));
            me.ok(anello_allgather(a.data(), b.data(), part * sizeof(float), ANELLO_BYTE, me.comm), "allgather");
            for (int rank = 0; rank < me.size; ++rank) {
              if (!holds(b.data() + std::size_t(rank) * part * sizeof(float), part * sizeof(float), unsigned(rank)))
                me.report.wrong("allgather of ", rank);
            }
          }) == "");
  }
}

TEST_CASE("a collective that ends with an error takes its buffers back from the peers' adapters", "[.adapter]") {
  CHECK(run_ranks(3, "verbs",
                  [](const Rank& me) {
    constexpr std::size_t kBytes = 32 * 1024 * 1024;
    const Memory mapped(kBytes);
    summed_over_verbs(me, reinterpret_cast<float*>(mapped.data()), reinterpret_cast<float*>(mapped.data()), kFloats);
    anello_comm_t other = ANELLO_COMM_NULL;
    me.ok(anello_comm_dup(me.comm, &other), "dup");
    std::memset(mapped.data(), 1, kBytes);
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.ok(anello_iallreduce(ANELLO_IN_PLACE, mapped.data(), kBytes, ANELLO_UINT8, ANELLO_SUM, other, &request),
          "iallreduce");
    int done = 0;
    for (int turn = 0; turn < 20 && done == 0; ++turn) anello_test(&request, &done, nullptr);
    if (me.rank == 0) anello_comm_abort(other, "given up");
    const anello_result_t ended = done != 0 ? ANELLO_OK : anello_wait(&request, nullptr);
    // From here on the memory is the caller's: no adapter stores into it.
    std::memset(mapped.data(), 0xee, kBytes);
    me.ok(anello_barrier(me.comm), "barrier");
    for (std::size_t i = 0; i < kBytes; ++i) {
      if (mapped.data()[i] == 0xee) continue;
      me.report.wrong("rank ", me.rank, ": byte ", i, " has been stored after the error");
      break;
    }
    if (ended != ANELLO_ERR_ABORTED && ended != ANELLO_OK) me.report.wrong("ended with ", ended);
    anello_comm_destroy(other);
    summed_over_verbs(me, reinterpret_cast<float*>(mapped.data()), reinterpret_cast<float*>(mapped.data()), kFloats);
        }) == "");
}
