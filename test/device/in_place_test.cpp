// Calls whose ranks all have their buffers on devices run there, over processes as over threads: with the bits of the
// same call in host memory, and without touching what lies around. Ranks that cannot go through the host.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/device_memory.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

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
constexpr std::size_t kAround = 64;  // bytes before and after a buffer

std::vector<unsigned char> random_bytes(std::size_t bytes, int seed) {
  std::minstd_rand random(static_cast<unsigned>(seed + 1));
  std::vector<unsigned char> all(bytes);
  for (unsigned char& each : all) each = static_cast<unsigned char>(random() >> 8);
  return all;
}

// Device memory with some bytes around a buffer.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t shift)
      : all_(bytes + 2 * kAround + shift), from_(kAround + shift), at_(device_allocate(all_.size())) {
    std::fill(all_.begin(), all_.end(), std::uint8_t{0xa5});
  }
  ~Buffer() { device_free(at_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return static_cast<unsigned char*>(at_) + from_; }
  void put(const std::vector<unsigned char>& bytes) {
    std::copy(bytes.begin(), bytes.end(), all_.begin() + std::ptrdiff_t(from_));
    copy_to_device(at_, all_.data(), all_.size());
  }
  // Whether that is there, and nothing else has changed.
  bool holds(const std::vector<unsigned char>& bytes) {
    std::copy(bytes.begin(), bytes.end(), all_.begin() + std::ptrdiff_t(from_));
    std::vector<unsigned char> there(all_.size());
    copy_to_host(there.data(), at_, there.size());
    return there == all_;
  }

 private:
  std::vector<unsigned char> all_;
  const std::size_t from_;
  void* const at_;
};

// How the ranks' buffers lie in a call.
struct Lie {
  bool in_place;
  std::size_t shift;  // in elements
};

void sum_alike(Rank& me, anello_comm_t comm, const Sum& sum, std::size_t count, const Lie& lie, int seed) {
  const std::size_t bytes = count * sum.element;
  const std::vector<unsigned char> input = random_bytes(bytes, seed * 100 + me.rank());
  std::vector<unsigned char> expected = lie.in_place ? input : random_bytes(bytes, seed);
  Buffer out(bytes, lie.shift * sum.element), in(bytes, 0);
  in.put(input);
  out.put(expected);
  const void* const from = lie.in_place ? ANELLO_IN_PLACE : in.data();
  const void* const host = lie.in_place ? ANELLO_IN_PLACE : input.data();
  me.check(anello_allreduce(host, expected.data(), count, sum.dtype, sum.op, comm), "on the host", comm);
  me.check(anello_allreduce(from, out.data(), count, sum.dtype, sum.op, comm), "on the device", comm);
  const std::string what = "sum " + std::to_string(&sum - kSums) + ", " + std::to_string(count) + " elements" +
                           (lie.in_place ? " in place" : "") + (lie.shift > 0 ? ", shifted" : "");
  me.check(out.holds(expected), what + ": the host's bits, and nothing around");
  if (!lie.in_place) me.check(in.holds(input), what + ": the input is as it was");
}

const Role sums("sums", [](Rank& me) {
  const anello_comm_t comm = me.create();
  int seed = 0;
  for (const Sum& sum : kSums) {
    for (const std::size_t bytes : {300'000, 1'000'008}) {
      // Ranks differ in how their buffers lie.
      const Lie lie{(seed + me.rank()) % 2 == 0, std::size_t(me.rank() % 3)};
      sum_alike(me, comm, sum, bytes / sum.element, lie, ++seed);
    }
  }
  me.say("kernels ", device_calls("cuLaunchKernel"));
  me.say("handles ", device_calls("cuIpcOpenMemHandle_v2"));
  me.check(anello_comm_destroy(comm), "destroy");
  me.check(device_opened() == 0, "all is closed");
  me.say("done");
});

int number_after(const Line& line) { return std::stoi(line.text.substr(line.text.find(' ') + 1)); }

constexpr int kCalls = 2 * int(std::size(kSums));

}  // namespace

TEST_CASE("processes on one device: one rank's kernels do all the work") {
  for (const int count : {2, 3, 4}) {
    Ranks ranks(count, "sums", "shm");
    for (int rank = 0; rank < count; ++rank) {
      CHECK(number_after(ranks.expect(rank, "kernels")) == (rank == 0 ? kCalls : 0));
      CHECK(number_after(ranks.expect(rank, "handles")) > 0);
    }
    ranks.finish();
  }
}
