// The forms whose parts differ in count, against a sequential model: parts empty, with gaps, in any order.
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "values.h"

#include <numeric>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

using Bytes = std::vector<unsigned char>;
using Sizes = std::vector<std::size_t>;
constexpr unsigned char kUntouched = 0x5c;

// What rank `from` has for rank `to`, equal on all ranks; the same both ways, for alltoallv in place.
std::size_t flow(int from, int to, std::size_t scale) {
  const auto a = std::size_t(std::min(from, to));
  const auto b = std::size_t(std::max(from, to));
  return (a * 7 + b * 5 + 3) % 4 * scale + (a + b) % 2;
}

struct Parts {
  Sizes counts, at;
  std::size_t end = 0;
};
// From the last rank's on, with a gap behind each.
template <class Count>
Parts parts_of(int size, Count&& count) {
  Parts parts{Sizes(std::size_t(size)), Sizes(std::size_t(size)), 0};
  for (int p = size - 1; p >= 0; --p) {
    parts.counts[std::size_t(p)] = count(p);
    parts.at[std::size_t(p)] = parts.end;
    parts.end += count(p) + 1;
  }
  return parts;
}

struct Check {
  const Rank& me;
  std::size_t scale;
  anello_dtype_t dtype;
  std::size_t element = anello_dtype_size(dtype);
  std::size_t self = std::size_t(me.rank);

  std::size_t share(int rank) const { return flow(rank, rank + 1, scale); }
  Bytes untouched(std::size_t count) const { return Bytes(count * element + 1, kUntouched); }
  // value(i) of element i on, from element `at` of the buffer on.
  template <class Value>
  void fill(Bytes& bytes, std::size_t at, std::size_t count, Value&& value) const {
    Bytes part(count * element);
    for (std::size_t i = 0; i < count; ++i) put(part, dtype, i, value(i));
    std::copy(part.begin(), part.end(), bytes.begin() + std::ptrdiff_t(at * element));
  }
  void same(const char* call, const Bytes& got, const Bytes& expected) const {
    if (got == expected) return;
    const auto at = std::size_t(std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin());
    me.report.wrong("rank ", me.rank, " of ", me.size, ", ", call, " ", scale, " ", anello_dtype_name(dtype), ": byte ",
                    at, " of ", got.size(), " differs");
  }
  // Posts, changes the arrays at once (they are read during the post only), waits.
  template <class Post>
  void posted(const char* call, Parts& parts, Post&& post) const {
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.ok(post(&request), call);
    const Parts kept = parts;
    std::fill(parts.counts.begin(), parts.counts.end(), SIZE_MAX);
    std::fill(parts.at.begin(), parts.at.end(), SIZE_MAX);
    me.ok(anello_wait(&request, nullptr), call);
    parts = kept;
  }

  void gathers() const {
    Parts parts = parts_of(me.size, [&](int p) { return share(p); });
    Bytes in(share(me.rank) * element + 1), all = untouched(parts.end);
    fill(in, 0, share(me.rank), [&](std::size_t i) { return number(me.rank, i); });
    const Bytes empty = all;
    for (int p = 0; p < me.size; ++p)
      fill(all, parts.at[std::size_t(p)], share(p), [&](std::size_t i) { return number(p, i); });
    Bytes own = empty;
    fill(own, parts.at[self], share(me.rank), [&](std::size_t i) { return number(me.rank, i); });

    Bytes out = empty;
    me.ok(
        anello_allgatherv(in.data(), share(me.rank), out.data(), parts.counts.data(), parts.at.data(), dtype, me.comm),
        "allgatherv");
    same("allgatherv", out, all);
    out = own;
    posted("iallgatherv", parts, [&](auto* r) {
      return anello_iallgatherv(ANELLO_IN_PLACE, 0, out.data(), parts.counts.data(), parts.at.data(), dtype, me.comm,
                                r);
    });
    same("iallgatherv in place", out, all);
    for (const char* const algorithm : {"direct", "ring"}) {
      if (me.size == 1 || scale == 0) continue;
      out = own;
      anello_call_t call = ANELLO_CALL_INITIALIZER;
      call.kind = ANELLO_ALLGATHERV;
      call.dtype = dtype;
      call.sendbuf = ANELLO_IN_PLACE;
      call.recvbuf = out.data();
      call.recvcounts = parts.counts.data();
      call.rdispls = parts.at.data();
      call.algorithm = algorithm;
      me.ok(anello_post(me.comm, &call, nullptr), algorithm);
      same(algorithm, out, all);
    }
    for (int root = 0; root < me.size; ++root) {
      const bool here = me.rank == root;
      out = empty;
      me.ok(anello_gatherv(in.data(), share(me.rank), here ? out.data() : nullptr, here ? parts.counts.data() : nullptr,
                           here ? parts.at.data() : nullptr, dtype, root, me.comm),
            "gatherv");
      same("gatherv", out, here ? all : empty);
      out = here ? own : empty;
      posted("igatherv", parts, [&](auto* r) {
        return anello_igatherv(here ? ANELLO_IN_PLACE : in.data(), share(me.rank), out.data(), parts.counts.data(),
                               parts.at.data(), dtype, root, me.comm, r);
      });
      same("igatherv in place", out, here ? all : empty);
    }
  }

  void scatters() const {
    Parts parts = parts_of(me.size, [&](int p) { return share(p); });
    Bytes in = untouched(parts.end);
    fill(in, 0, parts.end, [&](std::size_t i) { return number(me.rank, i); });
    const Bytes given = in;
    for (int root = 0; root < me.size; ++root) {
      const bool here = me.rank == root;
      Bytes out = untouched(share(me.rank)), expected = out;
      const Bytes empty = out;
      fill(expected, 0, share(me.rank), [&](std::size_t i) { return number(root, parts.at[self] + i); });
      me.ok(anello_scatterv(here ? in.data() : nullptr, here ? parts.counts.data() : nullptr,
                            here ? parts.at.data() : nullptr, out.data(), share(me.rank), dtype, root, me.comm),
            "scatterv");
      same("scatterv", out, expected);
      out = empty;
      void* const place = const_cast<void*>(ANELLO_IN_PLACE);
      posted("iscatterv", parts, [&](auto* r) {
        return anello_iscatterv(in.data(), parts.counts.data(), parts.at.data(), here ? place : out.data(),
                                share(me.rank), dtype, root, me.comm, r);
      });
      same("iscatterv in place", out, here ? empty : expected);
      same("scatterv's sendbuf", in, given);
    }
  }

  void swaps() const {
    Parts sends = parts_of(me.size, [&](int p) { return flow(me.rank, p, scale); });
    Parts receives = parts_of(me.size, [&](int p) { return flow(p, me.rank, scale); });
    for (std::size_t& at : receives.at) at += 2;
    // What rank p has for this one begins where p's own layout puts it.
    const auto begin = [&](int p) { return parts_of(me.size, [&](int q) { return flow(p, q, scale); }).at[self]; };
    Bytes in = untouched(sends.end), expected = untouched(receives.end + 2), out = expected;
    fill(in, 0, sends.end, [&](std::size_t i) { return number(me.rank, i); });
    for (int p = 0; p < me.size; ++p)
      fill(expected, receives.at[std::size_t(p)], receives.counts[std::size_t(p)],
           [&](std::size_t i) { return number(p, begin(p) + i); });
    me.ok(anello_alltoallv(in.data(), sends.counts.data(), sends.at.data(), out.data(), receives.counts.data(),
                           receives.at.data(), dtype, me.comm),
          "alltoallv");
    same("alltoallv", out, expected);
    out = expected = in;
    for (int p = 0; p < me.size; ++p)
      fill(expected, sends.at[std::size_t(p)], sends.counts[std::size_t(p)],
           [&](std::size_t i) { return number(p, begin(p) + i); });
    posted("ialltoallv", sends, [&](auto* r) {
      return anello_ialltoallv(ANELLO_IN_PLACE, nullptr, nullptr, out.data(), sends.counts.data(), sends.at.data(),
                               dtype, me.comm, r);
    });
    same("ialltoallv in place", out, expected);
  }

  void reductions(anello_op_t op) const {
    Parts parts = parts_of(me.size, [&](int p) { return share(p); });
    const std::size_t first = std::accumulate(parts.counts.begin(), parts.counts.begin() + me.rank, std::size_t(0));
    const std::size_t all = std::accumulate(parts.counts.begin(), parts.counts.end(), std::size_t(0));
    Bytes in = untouched(all), out = untouched(share(me.rank));
    fill(in, 0, all, [&](std::size_t i) { return number(me.rank, i); });
    const auto compare = [&](const char* call, const Bytes& got) {
      for (std::size_t i = 0; i < share(me.rank); ++i) {
        const double expected = reduced(op, dtype, me.size, first + i);
        if (!close(get(got, dtype, i), expected, dtype)) {
          return me.report.wrong("rank ", me.rank, ", ", call, " ", anello_op_name(op), " ", anello_dtype_name(dtype),
                                 ": element ", i, " is ", get(got, dtype, i), ", not ", expected);
        }
      }
      if (got.back() != kUntouched) me.report.wrong(call, " wrote past its result");
    };
    me.ok(anello_reduce_scatter(in.data(), out.data(), parts.counts.data(), dtype, op, me.comm), "reduce_scatter");
    compare("reduce_scatter", out);
    posted("ireduce_scatter", parts, [&](auto* r) {
      return anello_ireduce_scatter(ANELLO_IN_PLACE, in.data(), parts.counts.data(), dtype, op, me.comm, r);
    });
    compare("ireduce_scatter in place", in);
  }
};

}  // namespace

TEST_CASE("parts that differ in count are right over every transport") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(transports, size);
  CHECK(run_ranks(size, transports.c_str(), [](const Rank& me) {
          for (const std::size_t scale : {std::size_t(0), std::size_t(1), std::size_t(211), std::size_t(30'011)}) {
            for (const anello_dtype_t dtype : kTypes) {
              if (scale > 1000 && dtype != ANELLO_FLOAT32 && dtype != ANELLO_BFLOAT16) continue;
              const Check check{me, scale, dtype};
              check.gathers();
              check.scatters();
              check.swaps();
              for (const anello_op_t op : kOps) {
                if (defined(dtype, op)) check.reductions(op);
              }
            }
          }
        }) == "");
}

TEST_CASE("two ranks that disagree on what goes between them hear of both counts") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  // Fewer, more, none where some are expected, some where none are, and a large part.
  struct Counts {
    std::size_t sent, expected;
  };
  for (const Counts c :
       {Counts{3, 5}, Counts{5, 3}, Counts{0, 4}, Counts{4, 0}, Counts{1'000'000, 10}, Counts{10, 1'000'000}}) {
    CAPTURE(transports, c.sent, c.expected);
    CHECK(run_ranks(3, transports.c_str(), [&](const Rank& me) {
            std::vector<float> in(1'000'000, 1.0f), out(1'000'020, -1.0f);
            const Sizes counts{4, 4, c.expected}, at{0, 4, 8};
            anello_comm_t comm = ANELLO_COMM_NULL;
            me.ok(anello_comm_dup(me.comm, &comm), "dup");
            anello_result_t result = anello_gatherv(in.data(), me.rank == 2 ? c.sent : 4, out.data(), counts.data(),
                                                    at.data(), ANELLO_FLOAT32, 0, comm);
            // Who had sent its part had nothing to wait for.
            if (me.rank != 0 && result == ANELLO_OK) result = anello_barrier(comm);
            me.report.expect(result, ANELLO_ERR_MISMATCH, comm, "gatherv on rank " + std::to_string(me.rank));
            const std::string said = anello_last_error(comm);
            const std::string both = "rank 2 sends " + std::to_string(c.sent) + " elements to rank 0, which expects " +
                                     std::to_string(c.expected);
            if (said.find(both) == std::string::npos) me.report.wrong("rank ", me.rank, " heard: ", said);
            if (me.rank == 0 && out[8 + c.expected] != -1.0f) me.report.wrong("more was written than expected");
            anello_comm_destroy(comm);
            me.ok(anello_barrier(me.comm), "barrier on the other communicator");
          }) == "");
  }
}

TEST_CASE("ranks that disagree on counts that all should know hear of it") {
  const auto transports = GENERATE(as<std::string>(), "shm", "tcp");
  CHECK(run_ranks(3, transports.c_str(), [](const Rank& me) {
          const std::vector<float> in(6, 1.0f);
          std::vector<float> out(6);
          const Sizes counts = me.rank == 1 ? Sizes{1, 2, 3} : Sizes{2, 2, 2};  // the same in sum
          anello_result_t result =
              anello_reduce_scatter(in.data(), out.data(), counts.data(), ANELLO_FLOAT32, ANELLO_SUM, me.comm);
          if (result == ANELLO_OK) result = anello_barrier(me.comm);
          me.report.expect(result, ANELLO_ERR_MISMATCH, me.comm, "reduce_scatter");
          if (std::string(anello_last_error(me.comm)).find("rank 1 called reduce_scatter(count 6 in parts #") ==
              std::string::npos) {
            me.report.wrong("rank ", me.rank, " heard: ", anello_last_error(me.comm));
          }
        }) == "");
}
