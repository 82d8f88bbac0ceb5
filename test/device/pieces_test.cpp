// Large messages, and calls that send messages, which go through the host: their copies are made in pieces, beside
// their steps.
#include "in_stream.h"
#include "on_device.h"
#include "support/thread_ranks.h"

#include <anello/stream.h>

#include "support/catch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace anello::test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kFetch = "cuMemcpyDtoHAsync_v2";
constexpr const char* kReturn = "cuMemcpyHtoDAsync_v2";

struct Released {
  ~Released() {
    hold_fetches(-1);
    fail_device_call(kFetch, 0);
    fail_device_call(kReturn, 0);
  }
};

struct Memory {
  explicit Memory(std::size_t bytes) : there(bytes / sizeof(float)), here(bytes) {}
  void fill(unsigned seed) {
    for (std::size_t i = 0; i + 4 <= here.size(); i += 4) {
      const auto value = float((i * 7 + seed * 13) % 251) / 8;
      std::memcpy(&here[i], &value, sizeof value);
    }
    copy_to_device(there.data(), here.data(), here.size());
  }
  bool agrees() const {
    std::vector<unsigned char> got(here.size());
    copy_to_host(got.data(), there.data(), got.size());
    return got == here;
  }
  const OnDevice there;
  std::vector<unsigned char> here;
};

anello_call_t call_of(anello_kind_t kind, anello_dtype_t dtype, std::size_t count, int root) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  call.dtype = dtype;
  call.op = ANELLO_SUM;
  call.count = count;
  call.peer = root;
  return call;
}

void wait_until(const Rank& me, const char* what, const std::function<bool()>& holds) {
  const auto begin = Clock::now();
  while (!holds()) {
    if (Clock::now() - begin > std::chrono::seconds(20)) return me.report.wrong("rank ", me.rank, ": never ", what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Both ranks come here; then so many copies to the host are made, and no more. returned: copies to the device until
// then.
void hold_together(const Rank& me, std::atomic<int>& ready, int fetches, std::atomic<int>* returned = nullptr) {
  if (++ready == 2) {
    hold_fetches(fetches);
    if (returned != nullptr) *returned = device_calls(kReturn);
    ++ready;
  }
  reaches(me, ready, 3);
}

// The call cannot end while both ranks' copies are held, and ends well once they are made.
void ends_when_released(const Rank& me, std::atomic<int>& ready, anello_request_t request) {
  int done = 0;
  me.ok(anello_test(&request, &done, nullptr), "test");
  if (done != 0) me.report.wrong("rank ", me.rank, " is done without all of its data");
  ++ready;
  reaches(me, ready, 5);
  hold_fetches(-1);
  me.ok(anello_wait(&request, nullptr), "wait");
}

}  // namespace

TEST_CASE("results in pieces are those of the same calls on the host", "[results]") {
  struct Kind {
    anello_kind_t kind;
    bool one_for_each;  // count is of one rank's part
    bool has_root;
  };
  const std::vector<Kind> kinds = {{ANELLO_ALLREDUCE, false, false}, {ANELLO_BROADCAST, false, true},
                                   {ANELLO_ALLGATHER, true, false},  {ANELLO_REDUCE_SCATTER_BLOCK, true, false},
                                   {ANELLO_REDUCE, false, true},     {ANELLO_GATHER, true, true},
                                   {ANELLO_SCATTER, true, true},     {ANELLO_ALLTOALL, true, false},
                                   {ANELLO_SCAN, false, false},      {ANELLO_EXSCAN, false, false}};
  for (const int size : {2, 3}) {
    CHECK(run_ranks(
              size, "tcp",
              [&](const Rank& me) {
      for (const Kind& kind : kinds) {
        for (const anello_dtype_t dtype : {ANELLO_FLOAT32, ANELLO_BFLOAT16}) {
          const std::size_t element = dtype == ANELLO_FLOAT32 ? 4 : 2;
          const std::size_t all = 4 * kMiB / element / std::size_t(size) * std::size_t(size) + 6;
          const std::size_t whole = all / std::size_t(size) * std::size_t(size) / 2 * 2;
          const std::size_t count = kind.one_for_each ? whole / std::size_t(size) / 2 * 2 : whole;
          const std::size_t room = std::size_t(size) * (kind.one_for_each ? count : (count + 1)) * element;
          Memory in(room / 4 * 4), out(room / 4 * 4);
          for (const bool in_place : {false, true}) {
            if (in_place && kind.kind != ANELLO_ALLREDUCE && kind.kind != ANELLO_ALLGATHER &&
                kind.kind != ANELLO_REDUCE_SCATTER_BLOCK)
              continue;
            in.fill(unsigned(me.rank) + 1);
            out.fill(unsigned(me.rank) + 77);
            anello_call_t call = call_of(kind.kind, dtype, count, kind.has_root ? size - 1 : 0);
            const std::string what = "kind " + std::to_string(kind.kind) + (in_place ? " in place" : "");
            const bool is_broadcast = kind.kind == ANELLO_BROADCAST;
            call.sendbuf = in_place ? ANELLO_IN_PLACE : is_broadcast ? nullptr : in.there.data();
            call.recvbuf = out.there.data();
            me.ok(anello_post(me.comm, &call, nullptr), what);
            call.sendbuf = in_place ? ANELLO_IN_PLACE : is_broadcast ? nullptr : in.here.data();
            call.recvbuf = out.here.data();
            me.ok(anello_post(me.comm, &call, nullptr), what + " on the host");
            const bool is_cut = in_place && kind.kind == ANELLO_REDUCE_SCATTER_BLOCK;  // the rest is unspecified
            if (is_cut) {
              std::vector<unsigned char> got(count * element);
              copy_to_host(got.data(), out.there.data(), got.size());
              if (std::memcmp(got.data(), out.here.data(), got.size()) != 0)
                me.report.wrong("rank ", me.rank, " of ", size, ", ", what, ", ", element, " bytes");
            } else if (!out.agrees() || !in.agrees()) {
              me.report.wrong("rank ", me.rank, " of ", size, ", ", what, ", ", element, " bytes");
            }
          }
        }
      }
              },
              60'000) == "");
  }
}

TEST_CASE("results go back while data still comes", "[fake]") {
  const Released released;
  std::atomic<int> ready{0};
  std::atomic<int> returned{0};
  CHECK(run_ranks(2, "tcp", [&](const Rank& me) {
          const std::size_t count = 16 * kMiB / sizeof(float);
          const OnDevice sum(count, float(me.rank + 1));
          hold_together(me, ready, 20, &returned);  // of 32
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(anello_iallreduce(ANELLO_IN_PLACE, sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
                "iallreduce");
          wait_until(me, "a piece back", [&] { return device_calls(kReturn) > returned; });
          ends_when_released(me, ready, request);
          is(me, sum.at(0), 3, "the first");
          is(me, sum.at(count - 1), 3, "the last");
        }) == "");
}

TEST_CASE("messages travel in pieces: of the same size, shorter than their receive, and too long for it") {
  CHECK(run_ranks(2, "tcp", [&](const Rank& me) {
          for (const std::size_t bytes : {4 * kMiB, 9 * kMiB + 12, 5 * kMiB - 4}) {
            Memory out(bytes), in(bytes + 8 * kMiB / 2);
            out.fill(unsigned(me.rank) + 1);
            in.fill(9);
            const int peer = 1 - me.rank;
            const Memory* const buffers[] = {&out, &in};
            const std::size_t counts[] = {bytes / 4, in.here.size() / 4};
            anello_request_t requests[2] = {ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL};
            anello_status_t status{};
            me.ok(anello_irecv(buffers[1]->there.data(), counts[1], ANELLO_FLOAT32,
                               me.rank == 0 ? ANELLO_ANY_SOURCE : peer, 3, me.comm, &requests[1]),
                  "irecv");
            me.ok(anello_isend(buffers[0]->there.data(), counts[0], ANELLO_FLOAT32, peer, 3, me.comm, &requests[0]),
                  "isend");
            me.ok(anello_wait(&requests[0], nullptr), "the send");
            me.ok(anello_wait(&requests[1], &status), "the receive");
            if (status.count != counts[0]) me.report.wrong("rank ", me.rank, " got ", status.count);
            Memory expected(bytes);
            expected.fill(unsigned(peer) + 1);
            std::copy(expected.here.begin(), expected.here.end(), in.here.begin());
            if (!in.agrees() || !out.agrees()) me.report.wrong("rank ", me.rank, ", ", bytes, " bytes");
          }
          // The receiver refuses it, perhaps while it still comes from its device.
          const OnDevice large(8 * kMiB / 4, 1), small(kMiB / 4, 2);
          if (me.rank == 0) {
            me.ok(anello_send(large.data(), large.count(), ANELLO_FLOAT32, 1, 4, me.comm), "too long");
          } else {
            me.fails(anello_recv(small.data(), small.count(), ANELLO_FLOAT32, 0, 4, me.comm, nullptr),
                     ANELLO_ERR_TRUNCATE, "too long");
            is(me, small.at(0), 2, "left alone");
          }
          me.ok(anello_barrier(me.comm), "afterwards");
        }) == "");
}

TEST_CASE("frames leave and arrive while the rest of a message is on its device", "[fake]") {
  const Released released;
  std::atomic<int> ready{0}, returned{0};
  CHECK(run_ranks(2, "tcp", [&](const Rank& me) {
          const std::size_t count = 16 * kMiB / sizeof(float);
          const OnDevice buffer(count, float(me.rank + 1));
          hold_together(me, ready, 8, &returned);  // of 16
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(me.rank == 0 ? anello_isend(buffer.data(), count, ANELLO_FLOAT32, 1, 0, me.comm, &request)
                             : anello_irecv(buffer.data(), count, ANELLO_FLOAT32, 0, 0, me.comm, &request),
                "posted");
          wait_until(me, "seven pieces back", [&] { return device_calls(kReturn) >= returned + 7; });
          ends_when_released(me, ready, request);
          is(me, buffer.at(0), 1, "the first");
          is(me, buffer.at(count - 1), 1, "the last");
        }) == "");
}

TEST_CASE("a device that fails between pieces ends the communicator, and its rank is named", "[fake]") {
  const Released released;
  for (const char* const failing : {kFetch, kReturn}) {
    INFO(failing);
    std::atomic<int> ready{0};
    CHECK(run_ranks(2, "tcp", [&](const Rank& me) {
            const std::size_t count = 8 * kMiB / sizeof(float);
            const OnDevice there(me.rank == 0 ? count : 1, 1);
            std::vector<float> here(count, 1);
            float* const buffer = me.rank == 0 ? there.data() : here.data();
            if (me.rank == 0) fail_device_call(failing, 719, 3);
            ++ready;
            reaches(me, ready, 2);
            anello_result_t result =
                anello_allreduce(ANELLO_IN_PLACE, buffer, count, ANELLO_FLOAT32, ANELLO_SUM, me.comm);
            // Rank 1 may be done before rank 0's results go back.
            if (me.rank == 1 && result == ANELLO_OK) result = anello_barrier(me.comm);
            if (result == ANELLO_OK) me.report.wrong("rank ", me.rank, " heard nothing of it");
            const std::string text = anello_last_error(me.comm);
            if (text.find("(719)") == std::string::npos || text.find("rank 0 (host") == std::string::npos)
              me.report.wrong("rank ", me.rank, ": ", text);
            ++ready;
            reaches(me, ready, 4);
            if (me.rank == 0) fail_device_call(failing, 0);
          }) == "");
  }
}

TEST_CASE("data that stops coming is named when the deadline passes", "[fake]") {
  const Released released;
  std::atomic<int> ready{0};
  CHECK(run_ranks(
            2, "tcp",
            [&](const Rank& me) {
    const std::size_t count = 8 * kMiB / sizeof(float);
    const OnDevice there(me.rank == 0 ? count : 1, 1);
    std::vector<float> here(count, 1);
    float* const buffer = me.rank == 0 ? there.data() : here.data();
    if (me.rank == 0) hold_fetches(3);
    ++ready;
    reaches(me, ready, 2);
    me.fails(anello_allreduce(ANELLO_IN_PLACE, buffer, count, ANELLO_FLOAT32, ANELLO_SUM, me.comm), ANELLO_ERR_TIMEOUT,
             "held");
    const std::string text = anello_last_error(me.comm);
    if (me.rank == 0 && text.find("its data from device 0") == std::string::npos) me.report.wrong("rank 0: ", text);
    ++ready;
    reaches(me, ready, 4);
    hold_fetches(-1);
            },
            1000) == "");
}

TEST_CASE("an abort between pieces ends the call, and memory that copies still use is not freed", "[fake]") {
  const Released released;
  constexpr const char* kUnpin = "cuMemHostUnregister";
  std::atomic<int> ready{0}, unpinned{0};
  CHECK(run_ranks(2, "tcp",
                  [&](const Rank& me) {
    anello_comm_t other = ANELLO_COMM_NULL;
    me.ok(anello_comm_dup(me.comm, &other), "dup");
    const std::size_t count = 8 * kMiB / sizeof(float);
    const OnDevice sum(count, 1), large(3 * count);
    // Pins memory of another size, and frees what earlier tests have left.
    me.ok(anello_allreduce(ANELLO_IN_PLACE, large.data(), 3 * count, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "first");
    if (++ready == 2) {
      hold_fetches(9);
      ++ready;
    }
    reaches(me, ready, 3);
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.ok(anello_iallreduce(ANELLO_IN_PLACE, sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, other, &request),
          "iallreduce");
    ++ready;
    reaches(me, ready, 5);
    const auto begin = Clock::now();
    if (me.rank == 0) anello_comm_abort(other, "enough");
    if (anello_wait(&request, nullptr) == ANELLO_OK) me.report.wrong("rank ", me.rank, " heard nothing of it");
    if (Clock::now() - begin > std::chrono::seconds(10)) me.report.wrong("it took long");
    anello_comm_destroy(other);
    if (++ready == 7) {
      unpinned = device_calls(kUnpin);
      hold_fetches(-1);
      ++ready;
    }
    reaches(me, ready, 8);
    sum.put(5);
    me.ok(anello_allreduce(ANELLO_IN_PLACE, sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "afterwards");
    is(me, sum.at(0), 10, "the first");
    is(me, sum.at(count - 1), 10, "the last");
    // That call pinned memory, at which point memory without copies was freed: of at most one of the ranks.
    if (device_calls(kUnpin) > unpinned + 1) me.report.wrong("memory was freed");
        }) == "");
}

TEST_CASE("calls in a stream and in a graph are made in pieces, too") {
  CHECK(run_ranks(
            2, "tcp",
            [](const Rank& me) {
    const Stream stream;
    const std::size_t count = 6 * kMiB / sizeof(float);
    const OnDevice sum(count, 1);
    for (int round = 0; round < 3; ++round)
      me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
            "in a stream");
    stream.wait();
    is(me, sum.at(count - 1), 8, "in a stream");
    begin_capture(stream);
    me.ok(anello_allreduce_on(ANELLO_IN_PLACE, sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm, stream),
          "captured");
    me.ok(anello_broadcast_on(sum.data(), count, ANELLO_FLOAT32, 1, me.comm, stream), "captured");
    void* const graph = end_capture(stream);
    for (int round = 0; round < 5; ++round) replay(graph, stream);
    stream.wait();
    is(me, sum.at(0), 256, "replayed");
    is(me, sum.at(count - 1), 256, "replayed");
    destroy_graph(graph);
            },
            60'000) == "");
}
