// reduce, gather, scatter, alltoall, scan and exscan against a sequential model.
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "values.h"

#include <string>
#include <vector>

using namespace anello::test;

namespace {

using Bytes = std::vector<unsigned char>;
constexpr unsigned char kUntouched = 0x5c;

// Calls each way that a C function can be called: blocking, and by its nonblocking form.
template <class Blocking, class Posting>
void both(const Rank& me, const std::string& what, Bytes& output, const Bytes& before, Blocking&& blocking,
          Posting&& posting, const std::function<void(const std::string&)>& check) {
  output = before;
  me.ok(blocking(), what);
  check(what);
  output = before;
  anello_request_t request = ANELLO_REQUEST_NULL;
  me.ok(posting(&request), "i" + what);
  me.ok(anello_wait(&request, nullptr), "wait for i" + what);
  check("i" + what);
}

struct Check {
  const Rank& me;
  std::size_t count;
  anello_dtype_t dtype;
  std::size_t element = anello_dtype_size(dtype);

  std::string named(const char* call, const std::string& more) const {
    return std::string(call) + " of " + std::to_string(count) + " " + anello_dtype_name(dtype) + more;
  }
  Bytes numbers(std::size_t n) const {
    Bytes bytes(n * element + 1);
    for (std::size_t i = 0; i < n; ++i) put(bytes, dtype, i, number(me.rank, i));
    return bytes;
  }
  // expected(i): what element i of n must be; nothing behind them may change.
  template <class Expected>
  void compare(const std::string& call, const Bytes& got, std::size_t n, Expected&& expected) const {
    for (std::size_t i = 0; i < n; ++i) {
      if (!close(get(got, dtype, i), expected(i), dtype)) {
        me.report.wrong("rank ", me.rank, " of ", me.size, ", ", call, ": element ", i, " is ", get(got, dtype, i),
                        ", not ", expected(i));
        return;
      }
    }
  }
  void untouched(const std::string& call, const Bytes& got, const Bytes& before) const {
    if (got != before) me.report.wrong("rank ", me.rank, ", ", call, " wrote where it should not");
  }

  void reduce(anello_op_t op, int root) const {
    const Bytes in = numbers(count);
    const Bytes empty(count * element + 1, kUntouched);
    Bytes out;
    const auto check = [&](const std::string& call) {
      if (me.rank != root) return untouched(call, out, empty);
      compare(call, out, count, [&](std::size_t i) { return reduced(op, dtype, me.size, i); });
    };
    const std::string more = std::string(" ") + anello_op_name(op) + " to " + std::to_string(root);
    both(
        me, named("reduce", more), out, empty,
        [&] { return anello_reduce(in.data(), out.data(), count, dtype, op, root, me.comm); },
        [&](auto* r) { return anello_ireduce(in.data(), out.data(), count, dtype, op, root, me.comm, r); }, check);
    if (me.rank == root) {
      both(
          me, named("reduce in place", more), out, in,
          [&] { return anello_reduce(ANELLO_IN_PLACE, out.data(), count, dtype, op, root, me.comm); },
          [&](auto* r) { return anello_ireduce(ANELLO_IN_PLACE, out.data(), count, dtype, op, root, me.comm, r); },
          check);
    } else {
      const auto nothing = [](const std::string&) {};
      both(
          me, named("reduce without recvbuf", more), out, empty,
          [&] { return anello_reduce(in.data(), nullptr, count, dtype, op, root, me.comm); },
          [&](auto* r) { return anello_ireduce(in.data(), nullptr, count, dtype, op, root, me.comm, r); }, nothing);
    }
  }

  void gather(int root) const {
    const Bytes in = numbers(count);
    const std::size_t all = count * std::size_t(me.size);
    Bytes before(all * element + 1, kUntouched), out;
    const auto check = [&](const std::string& call) {
      if (me.rank != root) return untouched(call, out, before);
      compare(call, out, all, [&](std::size_t i) { return number(int(i / count), i % count); });
    };
    const std::string more = " to " + std::to_string(root);
    both(
        me, named("gather", more), out, before,
        [&] { return anello_gather(in.data(), out.data(), count, dtype, root, me.comm); },
        [&](auto* r) { return anello_igather(in.data(), out.data(), count, dtype, root, me.comm, r); }, check);
    if (me.rank == root)
      std::copy_n(in.begin(), count * element, before.begin() + std::ptrdiff_t(std::size_t(root) * count * element));
    const void* const send = me.rank == root ? ANELLO_IN_PLACE : in.data();
    both(
        me, named("gather in place", more), out, before,
        [&] { return anello_gather(send, out.data(), count, dtype, root, me.comm); },
        [&](auto* r) { return anello_igather(send, out.data(), count, dtype, root, me.comm, r); }, check);
  }

  void scatter(int root) const {
    const std::size_t all = count * std::size_t(me.size);
    const std::size_t own = count * std::size_t(me.rank);
    Bytes in = numbers(all);
    const Bytes given = in;
    const Bytes empty(count * element + 1, kUntouched);
    Bytes out;
    const auto check = [&](const std::string& call) {
      untouched(call + " into sendbuf", in, given);
      compare(call, out, count, [&](std::size_t i) { return number(root, own + i); });
      if (out.back() != kUntouched) me.report.wrong(call, " wrote past its part");
    };
    const std::string more = " from " + std::to_string(root);
    const void* const send = me.rank == root ? in.data() : nullptr;
    both(
        me, named("scatter", more), out, empty,
        [&] { return anello_scatter(send, out.data(), count, dtype, root, me.comm); },
        [&](auto* r) { return anello_iscatter(send, out.data(), count, dtype, root, me.comm, r); }, check);
    void* const place = const_cast<void*>(ANELLO_IN_PLACE);
    both(
        me, named("scatter in place", more), out, empty,
        [&] { return anello_scatter(send, me.rank == root ? place : out.data(), count, dtype, root, me.comm); },
        [&](auto* r) {
      void* const there = in.data() + own * element;
      return anello_iscatter(send, me.rank == root ? there : out.data(), count, dtype, root, me.comm, r);
        },
        [&](const std::string& call) {
      if (me.rank == root) return untouched(call + " in place", in, given);
      check(call);
    });
  }

  void alltoall() const {
    const std::size_t all = count * std::size_t(me.size);
    const Bytes in = numbers(all);
    const Bytes empty(all * element + 1, kUntouched);
    Bytes out;
    const auto check = [&](const std::string& call) {
      compare(call, out, all,
              [&](std::size_t i) { return number(int(i / count), std::size_t(me.rank) * count + i % count); });
    };
    both(
        me, named("alltoall", ""), out, empty,
        [&] { return anello_alltoall(in.data(), out.data(), count, dtype, me.comm); },
        [&](auto* r) { return anello_ialltoall(in.data(), out.data(), count, dtype, me.comm, r); }, check);
    // Only odd ranks in place: others need not know.
    const void* const send = me.rank % 2 == 1 ? ANELLO_IN_PLACE : in.data();
    both(
        me, named("alltoall, some in place", ""), out, in,
        [&] { return anello_alltoall(send, out.data(), count, dtype, me.comm); },
        [&](auto* r) { return anello_ialltoall(ANELLO_IN_PLACE, out.data(), count, dtype, me.comm, r); }, check);
  }

  void scans(anello_op_t op) const {
    const Bytes in = numbers(count);
    const Bytes empty(count * element + 1, kUntouched);
    Bytes out;
    const std::string more = std::string(" ") + anello_op_name(op);
    for (const bool in_place : {false, true}) {
      const Bytes& before = in_place ? in : empty;
      const void* const send = in_place ? ANELLO_IN_PLACE : in.data();
      both(
          me, named(in_place ? "scan in place" : "scan", more), out, before,
          [&] { return anello_scan(send, out.data(), count, dtype, op, me.comm); },
          [&](auto* r) { return anello_iscan(send, out.data(), count, dtype, op, me.comm, r); },
          [&](const std::string& call) {
        compare(call, out, count, [&](std::size_t i) { return reduced(op, dtype, me.rank + 1, i); });
          });
      both(
          me, named(in_place ? "exscan in place" : "exscan", more), out, before,
          [&] { return anello_exscan(send, out.data(), count, dtype, op, me.comm); },
          [&](auto* r) { return anello_iexscan(send, out.data(), count, dtype, op, me.comm, r); },
          [&](const std::string& call) {
        if (me.rank == 0) return untouched(call, out, before);
        compare(call, out, count, [&](std::size_t i) { return reduced(op, dtype, me.rank, i); });
          });
    }
  }
};

}  // namespace

TEST_CASE("rooted collectives, alltoall and scans are right over every transport") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(transports, size);
  CHECK(run_ranks(size, transports.c_str(),
                  [](const Rank& me) {
    for (const std::size_t count : {std::size_t(0), std::size_t(1), std::size_t(me.size + 1), std::size_t(1037)}) {
      for (const anello_dtype_t dtype : kTypes) {
        const Check check{me, count, dtype};
        for (const anello_op_t op : kOps) {
          if (!defined(dtype, op)) continue;
          check.reduce(op, int(count + std::size_t(op)) % me.size);
          if (op != ANELLO_AVG) check.scans(op);
        }
        check.alltoall();
        for (int root = 0; root < me.size; ++root) {
          check.gather(root);
          check.scatter(root);
        }
      }
    }
    for (int root = 0; root < me.size; ++root) Check{me, 70'001, ANELLO_FLOAT32}.reduce(ANELLO_SUM, root);
    for (const anello_dtype_t dtype : {ANELLO_FLOAT32, ANELLO_BFLOAT16, ANELLO_UINT8}) {
      const Check check{me, 70'001, dtype};
      check.reduce(ANELLO_AVG, me.size - 1);
      check.scans(ANELLO_SUM);
      check.alltoall();
      check.gather(me.size / 2);
      check.scatter(me.size - 1);
    }
        }) == "");
}

TEST_CASE("invariant reduce and scan do not depend on size, algorithm, root or transport", "[.][invariant]") {
  // Element i of a long vector and the same values in a short one: equal bits under ANELLO_INVARIANT=1.
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  for (const std::size_t count : {std::size_t(100), std::size_t(3000), std::size_t(60'000)}) {
    CHECK(run_ranks(4, transports.c_str(), [&](const Rank& me) {
            const auto value = [](int rank, std::size_t i) { return 1.0f / float(3 + 7 * rank + int(i % 100)); };
            std::vector<float> in(count), out(count);
            for (std::size_t i = 0; i < count; ++i) in[i] = value(me.rank, i);
            const auto check = [&](const char* call, int last) {
              for (std::size_t i = 0; i < count; ++i) {
                float sum = value(0, i);
                for (int rank = 1; rank <= last; ++rank) sum += value(rank, i);
                if (std::memcmp(&sum, &out[i], sizeof sum) != 0) {
                  return me.report.wrong(call, " of ", count, ": element ", i, " is ", out[i], ", not ", sum);
                }
              }
            };
            for (int root = 0; root < me.size; ++root) {
              me.ok(anello_reduce(in.data(), out.data(), count, ANELLO_FLOAT32, ANELLO_SUM, root, me.comm), "reduce");
              if (me.rank == root) check("reduce", me.size - 1);
            }
            me.ok(anello_scan(in.data(), out.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "scan");
            check("scan", me.rank);
            me.ok(anello_exscan(in.data(), out.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "exscan");
            if (me.rank > 0) check("exscan", me.rank - 1);
          }) == "");
  }
}
