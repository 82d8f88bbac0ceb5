// Counts beyond 2^32: 5 GB of int8 over two ranks, threads here, so that the machine has every byte once for each.
#include "support/catch.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

using anello::test::Rank;

namespace {

constexpr std::size_t kCount = 5'000'000'000;
constexpr std::size_t kNeeded = 16ull << 30;
constexpr std::size_t kPeriod = 65'521;  // a prime: nothing that ends up 2^32 or a chunk away looks the same

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<signed char[], Free>;

std::size_t available() {
  std::ifstream in("/proc/meminfo");
  for (std::string name, unit; in >> name;) {
    std::size_t kib = 0;
    if (name == "MemAvailable:" && in >> kib) return kib * 1024;
    std::getline(in, unit);
  }
  return 0;
}

std::vector<signed char> pattern(int rank) {
  std::vector<signed char> values(kPeriod);
  std::uint32_t state = 99u + std::uint32_t(rank);
  for (signed char& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<signed char>(state >> 24);
  }
  return values;
}

// The pattern begins anew at `at`; so does the part of a rank.
void fill(signed char* at, std::size_t count, const std::vector<signed char>& values) {
  for (std::size_t done = 0; done < count; done += kPeriod)
    std::memcpy(at + done, values.data(), std::min(kPeriod, count - done));
}

void same(const Rank& me, const char* call, const signed char* got, std::size_t count,
          const std::vector<signed char>& values) {
  for (std::size_t done = 0; done < count; done += kPeriod) {
    const std::size_t part = std::min(kPeriod, count - done);
    if (std::memcmp(got + done, values.data(), part) == 0) continue;
    const auto at = std::size_t(std::mismatch(got + done, got + done + part, values.begin()).first - got);
    return me.report.wrong("rank ", me.rank, ", ", call, ": element ", at, " is ", int(got[at]), ", not ",
                           int(values[at - done]));
  }
}

void check(const Rank& me) {
  const Memory data(static_cast<signed char*>(std::malloc(kCount)));
  if (data == nullptr) return me.report.wrong("no memory");
  const auto own = pattern(me.rank), other = pattern(1 - me.rank), first = pattern(0);
  std::vector<signed char> sum(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i) sum[i] = static_cast<signed char>(own[i] + other[i]);

  fill(data.get(), kCount, own);
  me.ok(anello_allreduce(ANELLO_IN_PLACE, data.get(), kCount, ANELLO_INT8, ANELLO_SUM, me.comm), "allreduce");
  same(me, "allreduce", data.get(), kCount, sum);

  if (me.rank == 0) fill(data.get(), kCount, first);
  me.ok(anello_broadcast(data.get(), kCount, ANELLO_INT8, 0, me.comm), "broadcast");
  same(me, "broadcast", data.get(), kCount, first);

  if (me.rank == 1) fill(data.get(), kCount, own);
  anello_status_t status{};
  if (me.rank == 1) me.ok(anello_send(data.get(), kCount, ANELLO_INT8, 0, 1, me.comm), "send");
  if (me.rank == 0) me.ok(anello_recv(data.get(), kCount, ANELLO_INT8, 1, 1, me.comm, &status), "recv");
  if (me.rank == 0 && status.count != kCount) me.report.wrong("the status counts ", status.count);
  same(me, "recv", data.get(), kCount, pattern(1));

  constexpr std::size_t kPart = kCount / 2;
  fill(data.get() + std::size_t(me.rank) * kPart, kPart, own);
  me.ok(anello_allgather(ANELLO_IN_PLACE, data.get(), kPart, ANELLO_INT8, me.comm), "allgather");
  same(me, "allgather", data.get() + std::size_t(me.rank) * kPart, kPart, own);
  same(me, "allgather", data.get() + std::size_t(1 - me.rank) * kPart, kPart, other);

  const std::size_t counts[] = {kCount - 7, 7};
  fill(data.get(), kCount, own);
  me.ok(anello_reduce_scatter(ANELLO_IN_PLACE, data.get(), counts, ANELLO_INT8, ANELLO_SUM, me.comm), "reduce_scatter");
  if (me.rank == 0) same(me, "reduce_scatter", data.get(), kCount - 7, sum);
  for (std::size_t i = 0; me.rank == 1 && i < 7; ++i) {
    if (data[i] != sum[(kCount - 7 + i) % kPeriod]) me.report.wrong("reduce_scatter: element ", i, " of rank 1");
  }
}

}  // namespace

TEST_CASE("five billion elements are right") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CAPTURE(transports);
  if (anello::test::kMemoryFactor > 1 || available() < kNeeded) {
    std::cout << "SKIPPED: needs " << (kNeeded >> 30) << " GiB of free memory, and no sanitizer; there are "
              << (available() >> 30) << "\n";
    return;
  }
  // A rank that fills or compares all of it is silent for as long.
  CHECK(anello::test::run_ranks(2, transports.c_str(), check, 300'000) == "");
}
