// Threads of one process with buffers on devices: they pass each other's addresses, and each rank's kernel folds its
// block.
#include "device/in_place_buffer.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <cstring>

#include <poll.h>

using namespace anello::test;

namespace {

constexpr std::size_t kFloats = 30'000;

Bytes floats(float value) {
  Bytes bytes(kFloats * sizeof(float));
  for (std::size_t i = 0; i < kFloats; ++i) std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  return bytes;
}

}  // namespace

TEST_CASE("threads fold a block each, without a handle", "[fake]") {
  for (const int size : {2, 3, 4}) {
    const int kernels = device_calls("cuLaunchKernel"), handles = device_calls("cuIpcOpenMemHandle_v2");
    constexpr int kRounds = 5;
    CHECK(run_ranks(size, "inproc", [&](const Rank& me) {
            Buffer in(floats(float(me.rank + 1))), out(floats(0));
            for (int round = 0; round < kRounds; ++round) {
              const bool in_place = (me.rank + round) % 2 == 0;
              (in_place ? out : in).put(floats(float(me.rank + 1)));
              me.ok(anello_allreduce(in_place ? ANELLO_IN_PLACE : in.data(), out.data(), kFloats, ANELLO_FLOAT32,
                                     ANELLO_SUM, me.comm),
                    "allreduce");
              if (!out.holds(floats(float(size * (size + 1)) / 2))) me.report.wrong("rank ", me.rank, ": not the sum");
            }
          }) == "");
    CHECK(device_calls("cuLaunchKernel") - kernels == size * kRounds);
    CHECK(device_calls("cuIpcOpenMemHandle_v2") == handles);
  }
}

TEST_CASE("nonblocking calls go on while nobody waits") {
  CHECK(run_ranks(2, "inproc", [](const Rank& me) {
          Buffer buffer(floats(float(me.rank + 1)));
          pollfd ended{-1, POLLIN, 0};
          me.ok(anello_comm_descriptor(me.comm, &ended.fd), "descriptor");
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(
              anello_iallreduce(ANELLO_IN_PLACE, buffer.data(), kFloats, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
              "iallreduce");
          // Nobody calls into the library until the descriptor tells of the end.
          if (::poll(&ended, 1, 5000) != 1) me.report.wrong("rank ", me.rank, ": it has not gone on");
          me.ok(anello_progress(me.comm), "progress");
          if (!buffer.holds(floats(3))) me.report.wrong("rank ", me.rank, ": not the sum");
          me.ok(anello_wait(&request, nullptr), "wait");
        }) == "");
}
