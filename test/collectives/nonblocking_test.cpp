#include "support/catch.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

using namespace anello::test;

// Every operator new of the program, the library's too, counted.
namespace {
std::atomic<long> allocations{0};
}

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(std::size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace

TEST_CASE("many operations on eight communicators, posted in opposite orders, complete in bounded memory", "[wrap]") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  constexpr int kSize = 4, kComms = 8, kOperations = 64;
  constexpr std::size_t kCount = 4096;
  std::atomic<long> before{0}, after{0};
  CHECK(run_ranks(kSize, transports.c_str(), [&](const Rank& me) {
          std::vector<anello_comm_t> comms(kComms);
          for (auto& comm : comms) me.ok(anello_comm_dup(me.comm, &comm), "dup");
          std::vector<std::vector<float>> data(kComms * kOperations, std::vector<float>(kCount, float(me.rank + 1)));
          std::vector<anello_request_t> requests(kComms * kOperations);
          me.ok(anello_barrier(me.comm), "barrier");
          if (me.rank == 0) before = resident_kib();
          me.ok(anello_barrier(me.comm), "barrier");
          for (int i = 0; i < kComms; ++i) {
            const int c = me.rank % 2 == 0 ? i : kComms - 1 - i;
            for (int k = 0; k < kOperations; ++k) {
              const std::size_t at = std::size_t(c * kOperations + k);
              me.ok(anello_iallreduce(ANELLO_IN_PLACE, data[at].data(), kCount, ANELLO_FLOAT32, ANELLO_SUM,
                                      comms[std::size_t(c)], &requests[at]),
                    "iallreduce");
            }
          }
          me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all");
          me.ok(anello_barrier(me.comm), "barrier");
          if (me.rank == 0) after = resident_kib();
          for (const auto& each : data) {
            if (each[0] != 10.0f || each[kCount - 1] != 10.0f) me.report.wrong("a sum is ", each[0]);
          }
          for (auto& comm : comms) me.ok(anello_comm_destroy(comm), "destroy");
        }) == "");
  INFO("resident memory of " << kSize << " ranks in one process grew by " << (after - before) / 1024 << " MiB");
  CHECK(after - before < kMemoryFactor * kSize * 64 * 1024);
}

TEST_CASE("a nonblocking call on one communicator and a blocking one on another, in opposite orders") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          anello_comm_t other = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &other), "dup");
          const anello_comm_t first = me.rank == 0 ? me.comm : other;
          const anello_comm_t second = me.rank == 0 ? other : me.comm;
          for (const std::size_t count : {std::size_t(10), std::size_t(300'000)}) {
            std::vector<float> a(count, 1.0f), b(count, 2.0f);
            float* const posted = me.rank == 0 ? a.data() : b.data();
            float* const blocking = me.rank == 0 ? b.data() : a.data();
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_iallreduce(ANELLO_IN_PLACE, posted, count, ANELLO_FLOAT32, ANELLO_SUM, first, &request),
                  "iallreduce");
            me.report.expect(anello_allreduce(ANELLO_IN_PLACE, blocking, count, ANELLO_FLOAT32, ANELLO_SUM, second),
                             ANELLO_OK, second, "allreduce");
            me.ok(anello_wait(&request, nullptr), "wait");
            if (a[count - 1] != 2.0f || b[count - 1] != 4.0f)
              me.report.wrong("sums are ", a[count - 1], " and ", b[count - 1]);
          }
          me.ok(anello_comm_destroy(other), "destroy");
        }) == "");
}

TEST_CASE("four threads post and a fifth waits") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(), [](const Rank& me) {
          constexpr int kThreads = 4, kEach = 20;
          std::vector<anello_comm_t> comms(kThreads);
          for (auto& comm : comms) me.ok(anello_comm_dup(me.comm, &comm), "dup");
          std::vector<std::vector<double>> data(kThreads * kEach, std::vector<double>(2000, me.rank + 1.0));
          std::vector<anello_request_t> requests(kThreads * kEach, ANELLO_REQUEST_NULL);
          std::vector<std::thread> posters;
          for (int t = 0; t < kThreads; ++t) {
            posters.emplace_back([&, t] {
              for (int k = 0; k < kEach; ++k) {
                const std::size_t at = std::size_t(t * kEach + k);
                me.ok(anello_iallreduce(ANELLO_IN_PLACE, data[at].data(), 2000, ANELLO_FLOAT64, ANELLO_SUM,
                                        comms[std::size_t(t)], &requests[at]),
                      "iallreduce");
              }
            });
          }
          for (auto& poster : posters) poster.join();
          std::thread waiter([&] { me.ok(anello_wait_all(requests.size(), requests.data(), nullptr), "wait_all"); });
          waiter.join();
          for (const auto& each : data) {
            if (each[1999] != 3.0) me.report.wrong("a sum is ", each[1999]);
          }
          for (auto& comm : comms) me.ok(anello_comm_destroy(comm), "destroy");
        }) == "");
}

TEST_CASE("operations advance while the application computes") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(2, transports.c_str(),
                  [](const Rank& me) {
    // Rank 1 posts and computes without calling Anello; rank 0 must get its result meanwhile.
    static std::atomic<bool> received;
    received = false;
    std::vector<float> data(200'000, 1.0f);
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.ok(anello_barrier(me.comm), "barrier");
    me.ok(anello_iallreduce(ANELLO_IN_PLACE, data.data(), data.size(), ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
          "iallreduce");
    if (me.rank == 0) {
      me.ok(anello_wait(&request, nullptr), "wait");
      received = true;
    } else {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!received && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
      if (!received) me.report.wrong("rank 0 had to wait for rank 1 to call wait");
      me.ok(anello_wait(&request, nullptr), "wait");
    }
    if (data[199'999] != 2.0f) me.report.wrong("the sum is ", data[199'999]);
        }) == "");
}

TEST_CASE("wait and test over any and some find what is done") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          constexpr std::size_t kRequests = 5;
          std::vector<std::int32_t> data(kRequests, me.rank + 1);
          std::vector<anello_request_t> requests(kRequests + 1, ANELLO_REQUEST_NULL);
          const auto post = [&] {
            for (std::size_t i = 0; i < kRequests; ++i) {
              data[i] = me.rank + 1;
              me.ok(anello_iallreduce(ANELLO_IN_PLACE, &data[i], 1, ANELLO_INT32, ANELLO_SUM, me.comm, &requests[i]),
                    "iallreduce");
            }
          };
          post();
          std::vector<bool> seen(kRequests, false);
          for (std::size_t i = 0; i < kRequests; ++i) {
            int index = -2;
            me.ok(anello_wait_any(requests.size(), requests.data(), &index, nullptr), "wait_any");
            if (index < 0 || seen[std::size_t(index)]) {
              me.report.wrong("wait_any gave ", index);
              break;
            }
            seen[std::size_t(index)] = true;
            if (data[std::size_t(index)] != 3) me.report.wrong("sum is ", data[std::size_t(index)]);
          }
          int index = -2;
          me.ok(anello_wait_any(requests.size(), requests.data(), &index, nullptr), "wait_any of null requests");
          if (index != -1) me.report.wrong("wait_any of null requests gave ", index);

          post();
          int left = int(kRequests);
          while (left > 0) {
            int done = 0;
            int indices[kRequests + 1];
            me.ok(anello_wait_some(requests.size(), requests.data(), &done, indices, nullptr), "wait_some");
            if (done < 1) {
              me.report.wrong("wait_some gave ", done);
              break;
            }
            left -= done;
          }
          post();
          int done = 0;
          while (done == 0) me.ok(anello_test_all(requests.size(), requests.data(), &done, nullptr), "test_all");
          for (const anello_request_t request : requests) {
            if (request != ANELLO_REQUEST_NULL) me.report.wrong("test_all left a request");
          }
          post();
          for (std::size_t found = 0; found < kRequests;) {
            int got = 0;
            me.ok(anello_test_any(requests.size(), requests.data(), &index, &got, nullptr), "test_any");
            if (got != 0 && index >= 0) ++found;
          }
        }) == "");
}

TEST_CASE("a call like an earlier one allocates nothing") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  for (const std::size_t count : {std::size_t(2), std::size_t(1000), std::size_t(100'000)}) {
    // Of a few windows the best: in a window in which the other rank does not run for 50 ms, calls are compared.
    std::atomic<long> fewest{1000};
    CHECK(run_ranks(2, transports.c_str(),
                    [&](const Rank& me) {
      std::vector<float> data(count, 1.0f);
      for (int i = 0; i < 200; ++i) {
        me.ok(anello_allreduce(ANELLO_IN_PLACE, data.data(), count, ANELLO_FLOAT32, ANELLO_MAX, me.comm), "");
      }
      for (int window = 0; window < 10; ++window) {
        me.ok(anello_barrier(me.comm), "");
        const long before = allocations;
        for (int i = 0; i < 20; ++i) {
          if (anello_allreduce(ANELLO_IN_PLACE, data.data(), count, ANELLO_FLOAT32, ANELLO_MAX, me.comm) != ANELLO_OK)
            break;
        }
        if (anello_barrier(me.comm) == ANELLO_OK && me.rank == 0)
          fewest = std::min(fewest.load(), allocations - before);
      }
          }) == "");
    CAPTURE(transports, count);
    CHECK(fewest == 0);
  }
}

#if defined(__SSE2__)
TEST_CASE("a caller that flushes denormals to zero gets the same bits") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          for (const std::size_t count : {std::size_t(3), std::size_t(50'000)}) {
            std::vector<float> data(count, 1e-40f);
            const unsigned saved = _mm_getcsr();
            if (me.rank == 1) _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
            me.ok(anello_allreduce(ANELLO_IN_PLACE, data.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm),
                  "allreduce");
            if (me.rank == 1 && _mm_getcsr() % 0x10000 / 0x40 != (saved | 0x8040) % 0x10000 / 0x40) {
              me.report.wrong("the caller's floating-point environment was changed");
            }
            _mm_setcsr(saved);
            std::uint32_t bits;
            std::memcpy(&bits, &data[count / 2], sizeof bits);
            const float expected = 1e-40f + 1e-40f;
            std::uint32_t expected_bits;
            std::memcpy(&expected_bits, &expected, sizeof expected_bits);
            if (bits != expected_bits) me.report.wrong("rank ", me.rank, " has bits ", bits, ", not ", expected_bits);
          }
        }) == "");
}
#endif

TEST_CASE("invariant results do not depend on size, algorithm or transport", "[.][invariant]") {
  // Element i of a long vector and the same values in a short one: equal bits under ANELLO_INVARIANT=1.
  std::vector<float> reference;
  std::mutex mutex;
  for (const char* transports : {"shm", "tcp", "inproc"}) {
    for (const std::size_t count : {std::size_t(100), std::size_t(3000), std::size_t(60'000)}) {
      CHECK(run_ranks(4, transports, [&](const Rank& me) {
              std::vector<float> data(count);
              for (std::size_t i = 0; i < count; ++i) data[i] = 1.0f / float(3 + 7 * me.rank + int(i % 100));
              me.ok(anello_allreduce(ANELLO_IN_PLACE, data.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm),
                    "allreduce");
              const std::lock_guard held(mutex);
              if (reference.empty()) {
                for (int i = 0; i < 100; ++i) {
                  float sum = 0;
                  for (int r = 0; r < 4; ++r) sum = r == 0 ? 1.0f / float(3 + i) : sum + 1.0f / float(3 + 7 * r + i);
                  reference.push_back(sum);
                }
              }
              for (std::size_t i = 0; i < count; ++i) {
                if (std::memcmp(&data[i], &reference[i % 100], sizeof(float)) != 0) {
                  me.report.wrong(transports, ", ", count, " elements: element ", i, " is ", data[i], ", not ",
                                  reference[i % 100]);
                  return;
                }
              }
            }) == "");
    }
  }
}
