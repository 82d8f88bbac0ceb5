#include "support/catch.h"
#include "support/thread_ranks.h"
#include "values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

using namespace anello::test;

namespace {

void check_reductions(const Rank& me, std::size_t count, anello_dtype_t dtype, anello_op_t op) {
  const std::size_t element = anello_dtype_size(dtype);
  const std::size_t all = count * std::size_t(me.size);
  const std::string what =
      std::string(anello_dtype_name(dtype)) + " " + anello_op_name(op) + " of " + std::to_string(count);
  std::vector<unsigned char> in(all * element);
  for (std::size_t i = 0; i < all; ++i) put(in, dtype, i, number(me.rank, i));
  const auto compare = [&](const std::vector<unsigned char>& got, std::size_t n, std::size_t offset, const char* call) {
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = reduced(op, dtype, me.size, i + offset);
      if (!close(get(got, dtype, i), expected, dtype)) {
        me.report.wrong("rank ", me.rank, ", ", call, " ", what, ": element ", i, " is ", get(got, dtype, i), ", not ",
                        expected);
        return;
      }
    }
  };
  std::vector<unsigned char> out(std::max<std::size_t>(1, count * element));
  me.ok(anello_allreduce(in.data(), out.data(), count, dtype, op, me.comm), "allreduce " + what);
  compare(out, count, 0, "allreduce");
  std::vector<unsigned char> both(in.begin(), in.begin() + std::ptrdiff_t(count * element));
  me.ok(anello_allreduce(ANELLO_IN_PLACE, both.data(), count, dtype, op, me.comm), "allreduce in place " + what);
  compare(both, count, 0, "allreduce in place");
  if (both != std::vector<unsigned char>(out.begin(), out.begin() + std::ptrdiff_t(both.size()))) {
    me.report.wrong("in place and out of place differ in ", what);
  }
  me.ok(anello_reduce_scatter_block(in.data(), out.data(), count, dtype, op, me.comm), "reduce_scatter_block " + what);
  compare(out, count, count * std::size_t(me.rank), "reduce_scatter_block");
  me.ok(anello_reduce_scatter_block(ANELLO_IN_PLACE, in.data(), count, dtype, op, me.comm),
        "reduce_scatter_block in place");
  compare(in, count, count * std::size_t(me.rank), "reduce_scatter_block in place");
}

void check_movements(const Rank& me, std::size_t count) {
  const std::size_t all = count * std::size_t(me.size);
  std::vector<std::int32_t> mine(count + 1), gathered(all + 1);
  for (std::size_t i = 0; i < count; ++i) mine[i] = std::int32_t(1000 * me.rank + int(i % 1000));
  me.ok(anello_allgather(mine.data(), gathered.data(), count, ANELLO_INT32, me.comm), "allgather");
  const auto check = [&](const char* call) {
    for (std::size_t i = 0; i < all; ++i) {
      const auto expected = std::int32_t(1000 * (i / count) + i % count % 1000);
      if (gathered[i] != expected) {
        me.report.wrong("rank ", me.rank, ", ", call, " of ", count, ": element ", i, " is ", gathered[i], ", not ",
                        expected);
        return;
      }
    }
  };
  check("allgather");
  std::fill(gathered.begin(), gathered.end(), -1);
  for (std::size_t i = 0; i < count; ++i) gathered[std::size_t(me.rank) * count + i] = mine[i];
  me.ok(anello_allgather(ANELLO_IN_PLACE, gathered.data(), count, ANELLO_INT32, me.comm), "allgather in place");
  check("allgather in place");
  for (int root = 0; root < me.size; ++root) {
    std::vector<std::int32_t> buffer(count + 1, me.rank == root ? 77 + root : -1);
    me.ok(anello_broadcast(buffer.data(), count, ANELLO_INT32, root, me.comm), "broadcast");
    for (std::size_t i = 0; i < count; ++i) {
      if (buffer[i] != 77 + root) {
        me.report.wrong("rank ", me.rank, ", broadcast of ", count, " from ", root, ": element ", i, " is ", buffer[i]);
        break;
      }
    }
  }
  me.ok(anello_barrier(me.comm), "barrier");
}

}  // namespace

TEST_CASE("every collective, type and operation is right over every transport") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3, 5);
  CAPTURE(transports, size);
  CHECK(run_ranks(size, transports.c_str(),
                  [](const Rank& me) {
    for (const std::size_t count : {std::size_t(0), std::size_t(1), std::size_t(me.size + 1), std::size_t(1037)}) {
      for (const anello_dtype_t dtype : kTypes) {
        for (const anello_op_t op : kOps) {
          if (defined(dtype, op)) check_reductions(me, count, dtype, op);
        }
      }
      check_movements(me, count);
    }
    check_reductions(me, 70'001, ANELLO_FLOAT32, ANELLO_SUM);
    check_reductions(me, 70'001, ANELLO_BFLOAT16, ANELLO_AVG);
    check_movements(me, 100'003);
        }) == "");
}

TEST_CASE("all ranks end with the same bits, whatever the values") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  for (const int size : {2, 3, 4, 7}) {
    CHECK(run_ranks(size, transports.c_str(), [](const Rank& me) {
            for (const std::size_t count : {std::size_t(5), std::size_t(5000), std::size_t(60'000)}) {
              for (const auto& [dtype, op] : {std::pair{ANELLO_FLOAT32, ANELLO_SUM},
                                              {ANELLO_FLOAT16, ANELLO_SUM},
                                              {ANELLO_BFLOAT16, ANELLO_SUM},
                                              {ANELLO_FLOAT8_E4M3, ANELLO_SUM},
                                              {ANELLO_FLOAT8_E5M2, ANELLO_PROD},
                                              {ANELLO_COMPLEX64, ANELLO_PROD},
                                              {ANELLO_COMPLEX128, ANELLO_AVG},
                                              {ANELLO_BOOL, ANELLO_LXOR},
                                              {ANELLO_FLOAT32_INT, ANELLO_MINLOC},
                                              {ANELLO_INT64_INT, ANELLO_MAXLOC}}) {
                // Arbitrary bit patterns: rounding, cancellation, infinities, NaNs, denormals, padding.
                std::vector<unsigned char> data(count * anello_dtype_size(dtype));
                std::uint32_t state = 12345u + std::uint32_t(me.rank);
                for (unsigned char& byte : data) {
                  state = state * 1664525u + 1013904223u;
                  byte = static_cast<unsigned char>(state >> 24);
                }
                me.ok(anello_allreduce(ANELLO_IN_PLACE, data.data(), count, dtype, op, me.comm), "allreduce");
                std::vector<unsigned char> of_all(data.size() * std::size_t(me.size));
                me.ok(anello_allgather(data.data(), of_all.data(), data.size(), ANELLO_UINT8, me.comm), "allgather");
                for (int rank = 0; rank < me.size; ++rank) {
                  if (std::memcmp(of_all.data() + std::size_t(rank) * data.size(), data.data(), data.size()) != 0) {
                    me.report.wrong("ranks ", me.rank, " and ", rank, " differ in ", anello_dtype_name(dtype), " of ",
                                    count);
                  }
                }
              }
            }
          }) == "");
  }
}

TEST_CASE("dup and split make communicators of their own") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(5, transports.c_str(), [](const Rank& me) {
          anello_comm_t twin = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &twin), "dup");
          int rank = -1, size = -1;
          me.ok(anello_comm_rank(twin, &rank), "rank");
          me.ok(anello_comm_size(twin, &size), "size");
          if (rank != me.rank || size != me.size) me.report.wrong("dup has rank ", rank, " of ", size);

          // Odd and even, in reverse order of rank; rank 4 stays out.
          anello_comm_t half = ANELLO_COMM_NULL;
          me.ok(anello_comm_split(me.comm, me.rank == 4 ? ANELLO_UNDEFINED : me.rank % 2, -me.rank, &half), "split");
          if (me.rank == 4) {
            if (half != ANELLO_COMM_NULL) me.report.wrong("rank 4 got a communicator");
          } else {
            me.ok(anello_comm_rank(half, &rank), "rank");
            me.ok(anello_comm_size(half, &size), "size");
            if (size != 2 || rank != (me.rank < 2 ? 1 : 0))
              me.report.wrong("rank ", me.rank, " is ", rank, " of ", size, " in its half");
            for (const std::size_t count : {std::size_t(1), std::size_t(20'000)}) {
              std::vector<std::int64_t> data(count, me.rank);
              me.ok(anello_allreduce(ANELLO_IN_PLACE, data.data(), count, ANELLO_INT64, ANELLO_SUM, half),
                    "allreduce of half");
              if (data[count - 1] != (me.rank % 2 == 0 ? 2 : 4)) me.report.wrong("half sums to ", data[count - 1]);
            }
            me.ok(anello_comm_destroy(half), "destroy");
          }
          std::int32_t one = 1;
          me.ok(anello_allreduce(ANELLO_IN_PLACE, &one, 1, ANELLO_INT32, ANELLO_SUM, twin), "allreduce of twin");
          if (one != 5) me.report.wrong("twin sums to ", one);
          me.ok(anello_comm_destroy(twin), "destroy");
          // Boards and ids are given back: many, one after the other.
          for (int i = 0; i < 40; ++i) {
            anello_comm_t each = ANELLO_COMM_NULL;
            me.ok(anello_comm_dup(me.comm, &each), "dup");
            std::int32_t x = me.rank;
            me.ok(anello_allreduce(ANELLO_IN_PLACE, &x, 1, ANELLO_INT32, ANELLO_SUM, each), "allreduce");
            if (x != 10) me.report.wrong("dup ", i, " sums to ", x);
            me.ok(anello_comm_destroy(each), "destroy");
          }
        }) == "");
}

TEST_CASE("results that no cache holds are right") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(4, transports.c_str(), [](const Rank& me) {
          constexpr std::size_t kPart = 800'003;  // of 4 ranks, 4 bytes each, 49 MiB in all
          const auto value = [](int rank, std::size_t i) {
            return float((i * 7 + std::size_t(rank) * 1'000'003) % 16'777'213);
          };
          const std::size_t all = kPart * std::size_t(me.size);
          // Also where they begin in the middle of a line, or of 16 bytes.
          for (const std::size_t at : {0, 4, 7}) {
            std::vector<float> in(all + at), out(all + at + 1);
            const auto check = [&](const char* call, const float* got, auto&& expected) {
              for (std::size_t i = 0; i < all; ++i)
                if (got[i] != expected(i))
                  return me.report.wrong("rank ", me.rank, ", ", call, " at ", at, ": element ", i, " is ", got[i],
                                         ", not ", expected(i));
              if (out.back() != -1) me.report.wrong("rank ", me.rank, ", ", call, " wrote behind its result");
            };
            for (std::size_t i = 0; i < all; ++i) in[at + i] = value(me.rank, i);
            out.assign(all + at + 1, -1);
            me.ok(anello_allgather(in.data() + at, out.data() + at, kPart, ANELLO_FLOAT32, me.comm), "allgather");
            check("allgather", out.data() + at, [&](std::size_t i) { return value(int(i / kPart), i % kPart); });
            out.assign(all + at + 1, -1);
            me.ok(anello_alltoall(in.data() + at, out.data() + at, kPart, ANELLO_FLOAT32, me.comm), "alltoall");
            check("alltoall", out.data() + at,
                  [&](std::size_t i) { return value(int(i / kPart), std::size_t(me.rank) * kPart + i % kPart); });
            out.assign(all + at + 1, -1);
            if (me.rank == 2) std::copy_n(in.begin() + std::ptrdiff_t(at), all, out.begin() + std::ptrdiff_t(at));
            me.ok(anello_broadcast(out.data() + at, all, ANELLO_FLOAT32, 2, me.comm), "broadcast");
            check("broadcast", out.data() + at, [&](std::size_t i) { return value(2, i); });
          }
        }) == "");
}
