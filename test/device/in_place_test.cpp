// Calls whose ranks all have their buffers on devices run there, over processes as over threads: with the bits of the
// same call in host memory, and without touching what lies around. Ranks that cannot go through the host.
#include "device/calls_on_devices.h"
#include "device/in_place_buffer.h"
#include "failures/judge.h"
#include "failures/rank.h"

#include <anello/stream.h>

#include "support/catch.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

using namespace failures;
using namespace anello::test;

namespace {

struct Sum {
  anello_dtype_t dtype;
  anello_op_t op;
  std::size_t element;
};
constexpr Sum kSums[] = {{ANELLO_FLOAT32, ANELLO_SUM, 4},  {ANELLO_FLOAT16, ANELLO_AVG, 2},
                         {ANELLO_BFLOAT16, ANELLO_SUM, 2}, {ANELLO_INT32, ANELLO_MAX, 4},
                         {ANELLO_INT64, ANELLO_AVG, 8},    {ANELLO_COMPLEX64, ANELLO_PROD, 8},
                         {ANELLO_UINT8, ANELLO_BXOR, 1}};
constexpr int kCalls = 2 * int(std::size(kSums));

// What the test wants to know of a rank, to be said and heard. Only the fake device counts its calls.
struct Counts {
  int calls = 0;  // that ran on devices
  int kernels = -1, handles = -1, through_host = -1;
};

// So many fake devices, for ranks that are started meanwhile.
struct FakeDevices {
  explicit FakeDevices(const std::string& count) { ::setenv("FAKE_CUDA_DEVICES", count.c_str(), 1); }
  ~FakeDevices() { ::unsetenv("FAKE_CUDA_DEVICES"); }
};

void end(Rank& me, anello_comm_t comm) {
  Counts mine;
  mine.calls = calls_on_devices(comm);
  if (is_fake_device()) {
    mine.kernels = device_calls("cuLaunchKernel");
    mine.handles = device_calls("cuIpcOpenMemHandle_v2");
    mine.through_host = device_calls("cuMemHostRegister_v2");
  }
  me.say("counts ", mine.calls, " ", mine.kernels, " ", mine.handles, " ", mine.through_host);
  me.check(anello_comm_destroy(comm), "destroy");
  if (is_fake_device()) me.check(device_opened() == 0, "all is closed");
  me.say("done");
}

Counts heard(Ranks& ranks, int rank) {
  Counts its;
  std::istringstream words(ranks.expect(rank, "counts").text);
  std::string name;
  words >> name >> its.calls >> its.kernels >> its.handles >> its.through_host;
  return its;
}

// The same call on the host and on the device.
using Call = std::function<anello_result_t(const void* from, void* into)>;
void calls_alike(Rank& me, anello_comm_t comm, const std::string& what, const Bytes& input, Bytes before, bool in_place,
                 std::size_t shift, const Call& call) {
  if (in_place) std::copy(input.begin(), input.end(), before.begin());
  Bytes expected = before;
  Buffer in(input), out(before, shift);
  me.check(call(in_place ? ANELLO_IN_PLACE : input.data(), expected.data()), what + " on the host", comm);
  me.check(call(in_place ? ANELLO_IN_PLACE : in.data(), out.data()), what + " on the device", comm);
  me.check(out.holds(expected), what + ": the host's bits, and nothing around");
  me.check(in.holds(input), what + ": the input is as it was");
}

void sum_alike(Rank& me, anello_comm_t comm, const Sum& sum, std::size_t bytes, bool in_place, std::size_t shift,
               int seed) {
  const std::size_t count = bytes / sum.element;
  const std::string what =
      "sum " + std::to_string(&sum - kSums) + " of " + std::to_string(count) + (in_place ? " in place" : "");
  calls_alike(me, comm, what, random_bytes(bytes, seed * 100 + me.rank()), random_bytes(bytes, seed), in_place,
              shift * sum.element, [&](const void* from, void* into) {
                return anello_allreduce(from, into, count, sum.dtype, sum.op, comm);
              });
}

void all_sums(Rank& me, anello_comm_t comm) {
  int seed = 0;
  for (const Sum& sum : kSums) {
    // Ranks differ in how their buffers lie.
    for (const std::size_t bytes : {300'000, 1'000'008}) {
      ++seed;
      sum_alike(me, comm, sum, bytes, (seed + me.rank()) % 2 == 0, std::size_t(me.rank() % 3), seed);
    }
  }
}

const Role sums("sums", [](Rank& me) {
  use_device(me.rank() % me.number("devices", 1));
  const anello_comm_t comm = me.create();
  all_sums(me, comm);
  end(me, comm);
});

void moves(Rank& me, anello_comm_t comm, bool in_place, int seed) {
  const std::size_t part = 800'000, all = part * std::size_t(me.size());
  const int root = seed % me.size();
  const Bytes mine = random_bytes(part, seed * 100 + me.rank()), many = random_bytes(all, seed * 100 + 50 + me.rank());
  const auto before = [&](std::size_t bytes) { return random_bytes(bytes, seed); };
  const std::size_t n = part / 4;
  // A broadcast's buffer is one, in any case.
  calls_alike(me, comm, "broadcast", mine, before(part), true, 4,
              [&](const void*, void* into) { return anello_broadcast(into, n, ANELLO_FLOAT32, root, comm); });
  calls_alike(me, comm, "reduce", mine, before(part), in_place && me.rank() == root, 0,
              [&](const void* from, void* into) {
    return anello_reduce(from, into, n, ANELLO_FLOAT32, ANELLO_SUM, root, comm);
  });
  calls_alike(me, comm, "alltoall", many, before(all), in_place, 0,
              [&](const void* from, void* into) { return anello_alltoall(from, into, n, ANELLO_FLOAT32, comm); });
  calls_alike(me, comm, "reduce_scatter", many, before(in_place ? all : part), in_place, 0,
              [&](const void* from, void* into) {
    return anello_reduce_scatter_block(from, into, n, ANELLO_FLOAT32, ANELLO_SUM, comm);
  });
}

// An allgather's input lies in the middle of its output.
void gathers(Rank& me, anello_comm_t comm, bool in_place, int seed) {
  const std::size_t part = 800'000, all = part * std::size_t(me.size());
  const Bytes mine = random_bytes(part, seed * 100 + me.rank());
  Bytes expected = random_bytes(all, seed);
  if (in_place) std::copy(mine.begin(), mine.end(), expected.begin() + std::ptrdiff_t(part) * me.rank());
  Buffer in(mine), out(expected);
  const auto call = [&](const void* from, void* into) {
    return anello_allgather(in_place ? ANELLO_IN_PLACE : from, into, part, ANELLO_BYTE, comm);
  };
  me.check(call(mine.data(), expected.data()), "allgather on the host", comm);
  me.check(call(in.data(), out.data()), "allgather on the device", comm);
  me.check(out.holds(expected), "allgather: the host's bytes, and nothing around");
}

const Role others("others", [](Rank& me) {
  use_device(me.rank() % me.number("devices", 1));
  const anello_comm_t comm = me.create();
  for (int seed = 0; seed < 4; ++seed) {
    // Mixed where a call allows it.
    moves(me, comm, (seed + me.rank()) % 3 == 0, seed);
    gathers(me, comm, (seed + me.rank()) % 2 == 0, seed);
  }
  end(me, comm);
});

constexpr std::size_t kFloats = 250'000;
anello_result_t sum_floats(void* buffer, anello_comm_t comm) {
  return anello_allreduce(ANELLO_IN_PLACE, buffer, kFloats, ANELLO_FLOAT32, ANELLO_SUM, comm);
}
Bytes floats(float value) {
  Bytes bytes(kFloats * sizeof(float));
  for (std::size_t i = 0; i < kFloats; ++i) std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  return bytes;
}
float sum_of_ranks(int size) { return float(size * (size + 1)) / 2; }

// Rank 1 is not like the others.
// All ranks' memory is mapped in pieces, and each one's descriptors come at another time: no rank asks for ever.
void refuse_pieces(Rank& me, anello_comm_t comm) {
  MappedMemory memory(3, true);
  fail_device_call("cuMemMap", 801);
  void* const buffer = memory.data() + MappedMemory::kPiece - 400'000;
  for (int round = 0; round < 3; ++round) {
    copy_to_device(buffer, floats(float(me.rank() + 1)).data(), kFloats * sizeof(float));
    me.check(sum_floats(buffer, comm), "allreduce", comm);
    Bytes there(kFloats * sizeof(float));
    copy_to_host(there.data(), buffer, there.size());
    me.check(there == floats(sum_of_ranks(me.size())), "the sum");
  }
  end(me, comm);
}

const Role apart("apart", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::string how = me.rank() == 1 ? me.setting("how") : "";
  if (how == "no handle") give_handles(false);
  if (how == "opens none") fail_device_call("cuIpcOpenMemHandle_v2", 1);
  if (how == "no kernels") fail_device_call("cuLibraryLoadData", 209);
  if (me.setting("how") == "maps none") return refuse_pieces(me, comm);
  void* const stream = me.number("in a stream", 0) != 0 ? make_stream() : nullptr;
  Bytes host = floats(0);
  Buffer device(host, how == "misaligned" ? 2 : 0);
  for (int round = 0; round < 6; ++round) {  // the same memory: what was refused is not offered each time
    host = floats(float(me.rank() + 1));
    device.put(host);
    void* const buffer = how == "host" ? host.data() : device.data();
    if (stream != nullptr) {
      me.check(anello_allreduce_on(ANELLO_IN_PLACE, buffer, kFloats, ANELLO_FLOAT32, ANELLO_SUM, comm, stream), "on");
      wait_for_stream(stream);
      me.check(anello_comm_async_error(comm), "in a stream", comm);
    } else {
      me.check(sum_floats(buffer, comm), "allreduce", comm);
    }
    const Bytes expected = floats(sum_of_ranks(me.size()));
    me.check(how == "host" ? host == expected : device.holds(expected), "the sum");
  }
  if (stream != nullptr) destroy_stream(stream);
  end(me, comm);
});

// Allocates and frees for each call, as programs do.
const Role fresh("fresh", [](Rank& me) {
  const anello_comm_t comm = me.create();
  for (int round = 0; round < 40; ++round) {
    Buffer buffer(floats(float(me.rank() + round)));
    me.check(sum_floats(buffer.data(), comm), "allreduce", comm);
    const float expected = float(me.size() * round) + sum_of_ranks(me.size()) - float(me.size());
    me.check(buffer.holds(floats(expected)), "the sum of round " + std::to_string(round));
    if (is_fake_device()) me.check(device_opened() < 3 * me.size(), "freed memory is closed");
  }
  end(me, comm);
});

// The buffer reaches over the end of a piece.
const Role mapped("mapped", [](Rank& me) {
  const anello_comm_t comm = me.create();
  MappedMemory memory(3, me.number("passed", 1) != 0);
  void* const buffer = memory.data() + MappedMemory::kPiece - 400'000;
  for (int round = 0; round < 4; ++round) {
    copy_to_device(buffer, floats(float(me.rank() + 1)).data(), kFloats * sizeof(float));
    me.check(sum_floats(buffer, comm), "allreduce", comm);
    Bytes there(kFloats * sizeof(float));
    copy_to_host(there.data(), buffer, there.size());
    me.check(there == floats(sum_of_ranks(me.size())), "the sum of round " + std::to_string(round));
    if (round % 2 == 1) memory.replace(1);
  }
  end(me, comm);
});

void sum_in_stream(Rank& me, anello_comm_t comm, void* stream, Buffer& a, Buffer& b) {
  a.put(floats(float(me.rank() + 1)));
  for (int round = 0; round < 3; ++round) {
    me.check(anello_allreduce_on(a.data(), b.data(), kFloats, ANELLO_FLOAT32, ANELLO_SUM, comm, stream), "on", comm);
    copy_on_device(a.data(), b.data(), kFloats * sizeof(float), stream);
  }
  wait_for_stream(stream);
  me.check(b.holds(floats(sum_of_ranks(me.size()) * float(me.size() * me.size()))), "the sum of sums");
}

const Role streams("streams", [](Rank& me) {
  const anello_comm_t comm = me.create();
  void* const own = make_stream();
  Buffer a(floats(0)), b(floats(0));
  // The null stream, too: it is ordered with most others.
  for (void* const stream : {own, static_cast<void*>(nullptr), own}) sum_in_stream(me, comm, stream, a, b);
  b.put(floats(float(me.rank() + 1)));
  begin_capture(own);
  me.check(anello_allreduce_on(ANELLO_IN_PLACE, b.data(), kFloats, ANELLO_FLOAT32, ANELLO_SUM, comm, own),
           "in a graph");
  void* const graph = end_capture(own);
  float sum = sum_of_ranks(me.size());
  for (int turn = 0; turn < 3; ++turn, sum *= float(me.size())) {
    replay(graph, own);
    wait_for_stream(own);
    me.check(b.holds(floats(sum)), "the sum of replay " + std::to_string(turn));
  }
  destroy_graph(graph);
  destroy_stream(own);
  end(me, comm);
});

// While a stream waits, nothing is closed, and so nothing is opened where it was: such calls go through the host.
const Role fresh_in_streams("fresh in streams", [](Rank& me) {
  const anello_comm_t comm = me.create();
  void* const stream = make_stream();
  for (int round = 0; round < 10; ++round) {
    Buffer a(floats(0)), b(floats(0));
    sum_in_stream(me, comm, stream, a, b);
  }
  destroy_stream(stream);
  end(me, comm);
});

}  // namespace

TEST_CASE("processes on one device: one rank's kernels do all the work") {
  for (const int count : {2, 3, 4}) {
    Ranks ranks(count, "sums", "shm");
    for (int rank = 0; rank < count; ++rank) {
      const Counts its = heard(ranks, rank);
      CHECK(its.calls == kCalls);
      if (its.kernels < 0) continue;
      CHECK(its.kernels == (rank == 0 ? kCalls : 0));
      CHECK(its.handles > 0);
      CHECK(its.through_host == 0);
    }
    ranks.finish();
  }
}

TEST_CASE("processes on several devices: each rank's kernel folds its block", "[fake]") {
  const FakeDevices two("2");
  Ranks ranks(3, "sums", "shm", {{"devices", "2"}});
  for (int rank = 0; rank < 3; ++rank) {
    const Counts its = heard(ranks, rank);
    CHECK(its.kernels == kCalls);
    CHECK(its.through_host == 0);
  }
  ranks.finish();
}

TEST_CASE("the other collectives run on devices, too") {
  for (const char* const devices : {"1", "2"}) {
    if (!is_fake_device() && devices == std::string("2")) continue;
    const FakeDevices count(devices);
    Ranks ranks(3, "others", "shm", {{"devices", devices}});
    for (int rank = 0; rank < 3; ++rank) CHECK(heard(ranks, rank).calls == 20);
    ranks.finish();
  }
}

TEST_CASE("if one rank cannot, all go through the host", "[fake]") {
  for (const char* const how : {"host", "no handle", "opens none", "no kernels", "misaligned", "maps none"}) {
    for (const bool in_a_stream : {false, true}) {
      INFO(how << (in_a_stream ? ", in a stream" : ""));
      Ranks ranks(3, "apart", "shm", {{"how", how}, {"in a stream", in_a_stream ? "1" : "0"}});
      for (int rank = 0; rank < 3; ++rank) {
        const Counts its = heard(ranks, rank);
        CHECK(its.calls == 0);
        CHECK(its.kernels == 0);
        if (how != std::string("host") || rank != 1) CHECK(its.through_host > 0);
      }
      ranks.finish();
    }
  }
}

TEST_CASE("memory that is freed and allocated anew is closed and opened anew") {
  Ranks ranks(3, "fresh", "shm");
  for (int rank = 0; rank < 3; ++rank) CHECK(heard(ranks, rank).calls == 40);
  ranks.finish();
}

TEST_CASE("memory that is mapped in pieces goes to other processes by descriptors") {
  for (const bool passed : {true, false}) {
    Ranks ranks(3, "mapped", "shm", {{"passed", passed ? "1" : "0"}});
    for (int rank = 0; rank < 3; ++rank) CHECK(heard(ranks, rank).calls == (passed ? 4 : 0));
    ranks.finish();
  }
}

TEST_CASE("calls in streams and graphs run on devices") {
  Ranks ranks(2, "streams", "shm");
  for (int rank = 0; rank < 2; ++rank) {
    const Counts its = heard(ranks, rank);
    CHECK(its.calls == 12);
    if (its.kernels >= 0) CHECK(its.kernels == (rank == 0 ? 12 : 0));
  }
  ranks.finish();
}

TEST_CASE("in streams, memory that is freed and allocated anew is opened anew between two calls") {
  Ranks ranks(2, "fresh in streams", "shm");
  for (int rank = 0; rank < 2; ++rank) {
    const Counts its = heard(ranks, rank);
    CHECK(its.calls >= 3);
    CHECK(its.calls <= 30);
  }
  ranks.finish();
}
