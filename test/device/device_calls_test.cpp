// Calls with buffers on a device: what goes wrong says so and which rank did it, order is kept, and the work goes on
// while nobody waits. What the calls compute is the model's matter (test/model).
#include "on_device.h"
#include "support/thread_ranks.h"

#include <anello/stream.h>

#include "support/catch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>

#include <poll.h>

using namespace anello::test;

namespace {

using Clock = std::chrono::steady_clock;

struct Healed {
  ~Healed() {
    hold_device(false);
    for (const char* const call :
         {"cuMemcpyDtoHAsync_v2", "cuMemcpy2DAsync_v2", "cuMemcpyHtoDAsync_v2", "cuStreamQuery"})
      fail_device_call(call, 0);
  }
};

void wait_for(const Rank& me, const std::atomic<int>& count, int wanted) {
  const auto begin = Clock::now();
  while (count < wanted) {
    if (Clock::now() - begin > std::chrono::seconds(20)) return me.report.wrong("rank ", me.rank, " waited in vain");
    std::this_thread::yield();
  }
}

void says(const Rank& me, const char* what) {
  const std::string text = anello_last_error(me.comm);
  if (text.find(what) == std::string::npos) me.report.wrong("rank ", me.rank, ": \"", text, "\" does not say ", what);
}

}  // namespace

TEST_CASE("a buffer that is too short for the count is refused, and the others hear of it") {
  CHECK(run_ranks(3, "inproc", [](const Rank& me) {
          const OnDevice buffer(100, 1);
          const std::size_t count = me.rank == 1 ? 101 : 100;
          const anello_result_t result =
              anello_allreduce(ANELLO_IN_PLACE, buffer.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm);
          if (me.rank == 1) {
            me.report.expect(result, ANELLO_ERR_ARGUMENT, me.comm, "the short one");
            says(me, "anello_allreduce: recvbuf needs 404 bytes of device memory, and its allocation ends after 400");
          } else if (result == ANELLO_OK) {
            me.report.wrong("rank ", me.rank, " heard nothing of it");
          }
        }) == "");
}

TEST_CASE("a buffer inside an allocation may be used, and one that was freed is refused") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          OnDevice buffer(1000, 1);
          me.ok(anello_allreduce(ANELLO_IN_PLACE, buffer.data() + 500, 500, ANELLO_FLOAT32, ANELLO_SUM, me.comm),
                "the second half");
          if (buffer.at(499) != 1 || buffer.at(500) != 2) me.report.wrong("not the second half");
          float* const gone = buffer.data();
          buffer.free();
          const int peer = 1 - me.rank;
          me.fails(anello_send(gone, 10, ANELLO_FLOAT32, peer, 0, me.comm), ANELLO_ERR_ARGUMENT, "freed");
          says(me, "anello_send: buffer is in device memory that has been freed");
        }) == "");
}

TEST_CASE("a device that cannot copy ends the communicator, and its rank is named", "[fake]") {
  const Healed healed;
  struct Copy {
    const char* call;
    std::size_t count;
  };
  // A small copy to the device goes another way than a large one.
  for (const Copy& each :
       {Copy{"cuMemcpyDtoHAsync_v2", 1000}, {"cuMemcpy2DAsync_v2", 1000}, {"cuMemcpyHtoDAsync_v2", 10'000}}) {
    INFO(each.call);
    std::atomic<int> ready{0};
    CHECK(run_ranks(2, "inproc", [&](const Rank& me) {
            const OnDevice buffer(each.count, 1);
            ++ready;
            wait_for(me, ready, 2);
            // Rank 1's own buffer is on the host: only rank 0 needs the copy.
            std::vector<float> host(each.count, 1);
            if (me.rank == 0) fail_device_call(each.call, 719);
            ++ready;
            wait_for(me, ready, 4);
            anello_result_t result = ANELLO_OK;
            for (int round = 0; round < 3 && result == ANELLO_OK; ++round)
              result = anello_allreduce(ANELLO_IN_PLACE, me.rank == 0 ? buffer.data() : host.data(), each.count,
                                        ANELLO_FLOAT32, ANELLO_SUM, me.comm);
            if (result == ANELLO_OK) me.report.wrong("rank ", me.rank, " heard nothing of it");
            says(me, "(719)");
            says(me, "rank 0 (host");
            ++ready;
            wait_for(me, ready, 6);
            if (me.rank == 0) fail_device_call(each.call, 0);
          }) == "");
  }
}

TEST_CASE("a device that fails while it copies ends the communicator at once", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "inproc", [&](const Rank& me) {
          const OnDevice buffer(1000, 1);
          if (++ready == 2) hold_device(true);
          wait_for(me, ready, 2);
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(anello_iallreduce(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
                "iallreduce");
          if (++ready == 4) fail_device_call("cuStreamQuery", 719);
          const auto begin = Clock::now();
          if (anello_wait(&request, nullptr) == ANELLO_OK) me.report.wrong("rank ", me.rank, " heard nothing of it");
          says(me, "cuStreamQuery");
          if (Clock::now() - begin > std::chrono::seconds(10)) me.report.wrong("it took long");
          if (++ready == 6) {
            fail_device_call("cuStreamQuery", 0);
            hold_device(false);
          }
          wait_for(me, ready, 6);
        }) == "");
}

TEST_CASE("a device that hangs is named when the deadline passes", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(
            2, "inproc",
            [&](const Rank& me) {
    const OnDevice buffer(1000, 1);
    std::vector<float> host(1000, 1);
    if (++ready == 2) hold_device(true);
    wait_for(me, ready, 2);
    const anello_result_t result = anello_allreduce(ANELLO_IN_PLACE, me.rank == 0 ? buffer.data() : host.data(), 1000,
                                                    ANELLO_FLOAT32, ANELLO_SUM, me.comm);
    me.report.expect(result, ANELLO_ERR_TIMEOUT, me.comm, "the deadline");
    if (++ready == 4) hold_device(false);
    wait_for(me, ready, 4);
            },
            500) == "");
}

TEST_CASE("a message on the host does not overtake one from a device", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const OnDevice first(1000, 1);
          std::vector<float> second(1000, 2), third(1000, 0);
          if (++ready == 2) hold_device(true);
          wait_for(me, ready, 2);
          if (me.rank == 0) {
            anello_request_t requests[2] = {ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL};
            me.ok(anello_isend(first.data(), 1000, ANELLO_FLOAT32, 1, 7, me.comm, &requests[0]), "isend");
            me.ok(anello_isend(second.data(), 1000, ANELLO_FLOAT32, 1, 7, me.comm, &requests[1]), "isend");
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            hold_device(false);
            me.ok(anello_send(second.data(), 1000, ANELLO_FLOAT32, 1, 7, me.comm), "send");
            me.ok(anello_wait_all(2, requests, nullptr), "wait");
          } else {
            for (const float expected : {1.0f, 2.0f, 2.0f}) {
              me.ok(anello_recv(third.data(), 1000, ANELLO_FLOAT32, 0, 7, me.comm, nullptr), "recv");
              if (third[999] != expected) me.report.wrong("got ", third[999], ", not ", expected);
            }
          }
        }) == "");
}

TEST_CASE("a short message leaves the rest of a buffer on a device as it is") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const OnDevice buffer(1000, float(me.rank + 1));
          if (me.rank == 0) {
            me.ok(anello_send(buffer.data(), 10, ANELLO_FLOAT32, 1, 0, me.comm), "send");
          } else {
            anello_status_t status;
            me.ok(anello_recv(buffer.data(), 1000, ANELLO_FLOAT32, 0, 0, me.comm, &status), "recv");
            if (status.count != 10 || buffer.at(9) != 1 || buffer.at(10) != 2) me.report.wrong("not ten elements");
          }
        }) == "");
}

TEST_CASE("calls on a device go on while no rank waits for them") {
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const OnDevice buffer(100'000, float(me.rank + 1));
          int descriptor = -1;
          me.ok(anello_comm_descriptor(me.comm, &descriptor), "descriptor");
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(
              anello_iallreduce(ANELLO_IN_PLACE, buffer.data(), 100'000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
              "iallreduce");
          pollfd ended{descriptor, POLLIN, 0};
          if (poll(&ended, 1, 10'000) != 1) me.report.wrong("rank ", me.rank, ": nothing ended");
          // A buffer belongs to its caller once the request is found done.
          int done = 0;
          me.ok(anello_test(&request, &done, nullptr), "test");
          if (done == 0) me.report.wrong("rank ", me.rank, ": something else ended");
          if (buffer.at(99'999) != 3) me.report.wrong("rank ", me.rank, ": nothing came");
          me.ok(anello_wait(&request, nullptr), "wait");
        }) == "");
}

TEST_CASE("an abort ends calls that wait for a device, and nothing is stored afterwards", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const OnDevice buffer(1000, 1);
          if (++ready == 2) hold_device(true);
          wait_for(me, ready, 2);
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(anello_iallreduce(ANELLO_IN_PLACE, buffer.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
                "iallreduce");
          ++ready;
          wait_for(me, ready, 4);
          const auto begin = Clock::now();
          if (me.rank == 0) anello_comm_abort(me.comm, "enough");
          if (anello_wait(&request, nullptr) == ANELLO_OK) me.report.wrong("rank ", me.rank, " heard nothing of it");
          if (Clock::now() - begin > std::chrono::seconds(10)) me.report.wrong("it took long");
          if (++ready == 6) hold_device(false);
          wait_for(me, ready, 6);
          if (buffer.at(0) != 1) me.report.wrong("something was stored");
        }) == "");
}

TEST_CASE("memory is pinned once", "[fake]") {
  int before = 0;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          const OnDevice buffer(100'000, 1);
          for (int round = 0; round < 20; ++round) {
            if (round == 10 && ++ready == 2) before = device_calls("cuMemHostRegister_v2");
            me.ok(anello_allreduce(ANELLO_IN_PLACE, buffer.data(), 100'000, ANELLO_FLOAT32, ANELLO_MAX, me.comm),
                  "allreduce");
          }
        }) == "");
  CHECK(device_calls("cuMemHostRegister_v2") == before);
}

TEST_CASE("a premultiplied sum waits for the device's earlier work up to its deadline", "[fake]") {
  const Healed healed;
  anello_op_t doubled;
  const float two = 2;
  REQUIRE(anello_op_create_premul_sum(&two, ANELLO_FLOAT32, &doubled) == ANELLO_OK);
  CHECK(run_ranks(1, "inproc", [&](const Rank& me) {
          const OnDevice in(1000, 1), out(1000, 0);
          hold_device(true);
          std::thread worker([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(1300));
            hold_device(false);
          });
          me.ok(anello_allreduce(in.data(), out.data(), 1000, ANELLO_FLOAT32, doubled, me.comm), "allreduce");
          worker.join();
          if (out.at(999) != 2) me.report.wrong("got ", out.at(999), ", not 2");
        }) == "");
  CHECK(run_ranks(
            2, "shm",
            [&](const Rank& me) {
    const OnDevice in(1000, 1), out(1000, 0);
    me.ok(anello_barrier(me.comm), "barrier");
    hold_device(true);
    if (anello_allreduce(in.data(), out.data(), 1000, ANELLO_FLOAT32, doubled, me.comm) == ANELLO_OK)
      me.report.wrong("the device did not hang");
    if (anello_comm_async_error(me.comm) == ANELLO_OK) me.report.wrong("the communicator goes on");
    hold_device(false);
            },
            300) == "");
  anello_op_free(doubled);
}

TEST_CASE("premultiplied sums of buffers on a device have the host's bits") {
  constexpr std::size_t kCount = 700, kRanks = 3;
  anello_op_t scaled;
  const float factor = 0.3f;
  REQUIRE(anello_op_create_premul_sum(&factor, ANELLO_FLOAT32, &scaled) == ANELLO_OK);
  enum class Form { apart, marker, address };
  for (const anello_dtype_t dtype : {ANELLO_FLOAT32, ANELLO_BFLOAT16}) {
    for (const anello_kind_t kind :
         {ANELLO_ALLREDUCE, ANELLO_REDUCE, ANELLO_REDUCE_SCATTER_BLOCK, ANELLO_SCAN, ANELLO_EXSCAN}) {
      for (const Form form : {Form::apart, Form::marker, Form::address}) {
        CHECK(run_ranks(int(kRanks), "shm", [&](const Rank& me) {
                const std::size_t bytes = kCount * kRanks * anello_dtype_size(dtype);
                const std::size_t part = std::size_t(me.rank) * kCount * anello_dtype_size(dtype);
                std::vector<unsigned char> in(bytes), out(bytes, 7);
                for (std::size_t i = 0; i < bytes; ++i)
                  in[i] = i % 2 == 0 ? 0 : static_cast<unsigned char>(0x3f + i % 3 + std::size_t(me.rank));
                const auto run = [&](unsigned char* from, unsigned char* to) {
                  anello_call_t call = ANELLO_CALL_INITIALIZER;
                  call.kind = kind;
                  call.count = kCount;
                  call.dtype = dtype;
                  call.op = scaled;
                  call.peer = 1;
                  call.sendbuf = from;
                  call.recvbuf = to;
                  if (form != Form::apart && (kind != ANELLO_REDUCE || me.rank == 1)) {
                    if (form == Form::marker) {
                      call.sendbuf = ANELLO_IN_PLACE;
                      call.recvbuf = from;
                    } else {
                      call.recvbuf = kind == ANELLO_REDUCE_SCATTER_BLOCK ? from + part : from;
                    }
                  }
                  anello_request_t request = ANELLO_REQUEST_NULL;
                  me.ok(anello_post(me.comm, &call, &request), "post");
                  me.ok(anello_wait(&request, nullptr), "wait");
                };
                const OnDevice from(bytes / sizeof(float)), to(bytes / sizeof(float));
                copy_to_device(from.data(), in.data(), bytes);
                copy_to_device(to.data(), out.data(), bytes);
                run(reinterpret_cast<unsigned char*>(from.data()), reinterpret_cast<unsigned char*>(to.data()));
                std::vector<unsigned char> in_there(bytes), out_there(bytes);
                copy_to_host(in_there.data(), from.data(), bytes);
                copy_to_host(out_there.data(), to.data(), bytes);
                run(in.data(), out.data());
                // Behind the result of a reduce_scatter in place, elements are unspecified.
                const std::size_t sure =
                    kind == ANELLO_REDUCE_SCATTER_BLOCK && form == Form::marker ? bytes / kRanks : bytes;
                if (!std::equal(in.begin(), in.begin() + std::ptrdiff_t(sure), in_there.begin()) || out != out_there)
                  me.report.wrong("kind ", int(kind), ", form ", int(form), ", dtype ", int(dtype), ", rank ", me.rank);
              }) == "");
      }
    }
  }
  anello_op_free(scaled);
}

// Under ANELLO_INVARIANT=1: element i of a long vector and the same values in a short one, on devices and on the host.
TEST_CASE("invariant sums on devices do not depend on size, algorithm, transport or place", "[.][invariant]") {
  std::vector<float> wanted;
  for (int i = 0; i < 100; ++i) {
    float sum = 0;
    for (int r = 0; r < 4; ++r) sum = r == 0 ? 1.0f / float(3 + i) : sum + 1.0f / float(3 + 7 * r + i);
    wanted.push_back(sum);
  }
  for (const char* transport : {"shm", "tcp", "inproc"}) {
    for (const char* algorithm : {"", "direct", "staged", "pairwise"}) {
      const bool is_there = algorithm == std::string("direct")   ? transport != std::string("tcp")
                            : algorithm == std::string("staged") ? transport == std::string("shm")
                                                                 : true;
      if (!is_there) continue;
      INFO(transport << ' ' << algorithm);
      CHECK(run_ranks(4, transport, [&](const Rank& me) {
              for (const bool mixed : {false, true}) {
                if (mixed && algorithm == std::string("direct")) continue;
                for (const std::size_t count : {100, 3000, 60'000}) {
                  std::vector<float> data(count);
                  for (std::size_t i = 0; i < count; ++i) data[i] = 1.0f / float(3 + 7 * me.rank + int(i % 100));
                  const OnDevice device(count);
                  copy_to_device(device.data(), data.data(), 4 * count);
                  const bool is_host = mixed && me.rank == 2;
                  anello_call_t call = ANELLO_CALL_INITIALIZER;
                  call.kind = ANELLO_ALLREDUCE;
                  call.sendbuf = ANELLO_IN_PLACE;
                  call.recvbuf = is_host ? data.data() : device.data();
                  call.count = count;
                  call.dtype = ANELLO_FLOAT32;
                  call.op = ANELLO_SUM;
                  call.algorithm = algorithm[0] != 0 ? algorithm : nullptr;
                  me.ok(anello_post(me.comm, &call, nullptr), "allreduce");
                  if (!is_host) copy_to_host(data.data(), device.data(), 4 * count);
                  for (std::size_t i = 0; i < count; ++i) {
                    if (std::memcmp(&data[i], &wanted[i % 100], sizeof(float)) == 0) continue;
                    me.report.wrong("rank ", me.rank, ", ", count, " elements: element ", i, " is ", data[i], ", not ",
                                    wanted[i % 100]);
                    return;
                  }
                }
              }
            }) == "");
    }
  }
}

TEST_CASE("a communicator is destroyed while its device hangs", "[fake]") {
  const Healed healed;
  std::atomic<int> ready{0};
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          anello_comm_t other = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &other), "dup");
          const OnDevice sum(1000, 1), out(1000, 1), in(1000, 1);
          if (++ready == 2) hold_device(true);
          wait_for(me, ready, 2);
          anello_request_t requests[3] = {ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL};
          me.ok(anello_iallreduce(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_SUM, other, &requests[0]),
                "iallreduce");
          me.ok(anello_isend(out.data(), 1000, ANELLO_FLOAT32, 1 - me.rank, 0, other, &requests[1]), "isend");
          me.ok(anello_irecv(in.data(), 1000, ANELLO_FLOAT32, 1 - me.rank, 0, other, &requests[2]), "irecv");
          anello_comm_destroy(other);
          for (anello_request_t& request : requests)
            if (anello_wait(&request, nullptr) == ANELLO_OK) me.report.wrong("a call ended well");
          ++ready;
          wait_for(me, ready, 4);
          hold_device(false);
          me.ok(anello_allreduce(ANELLO_IN_PLACE, sum.data(), 1000, ANELLO_FLOAT32, ANELLO_MAX, me.comm), "afterwards");
          if (sum.at(0) != 1) me.report.wrong("something was stored");
        }) == "");
}
