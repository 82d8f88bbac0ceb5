// Operations of the caller's own: functions over elements of any size, in the order of ranks where they do not commute,
// and premultiplied sums; what is refused, and what a function may not do.
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "values.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

// x -> a x + b modulo 2^32: composition is associative and does not commute. `bytes` wide, of which the end must be
// moved and combined as the rest is: an element torn between two frames would show there.
template <std::size_t bytes>
struct Affine {
  std::uint32_t a, b;
  unsigned char rest[bytes - 8];

  bool operator==(const Affine& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};

template <std::size_t bytes>
Affine<bytes> input(int rank, std::size_t i) {
  Affine<bytes> made{
      std::uint32_t(rank) * 2 + 3 + std::uint32_t(i % 5) * 2, std::uint32_t(rank + 1) * 7 + std::uint32_t(i), {}};
  for (std::size_t k = 0; k < sizeof made.rest; ++k) made.rest[k] = static_cast<unsigned char>(rank + int(k + i));
  return made;
}

template <std::size_t bytes>
Affine<bytes> composed(const Affine<bytes>& left, const Affine<bytes>& right) {
  Affine<bytes> made{left.a * right.a, left.a * right.b + left.b, {}};
  for (std::size_t k = 0; k < sizeof made.rest; ++k) {
    made.rest[k] = static_cast<unsigned char>(left.rest[k] * 3 +
                                              right.rest[k]);  // not even associative: rank 0 leftmost, one by one
  }
  return made;
}

// The sum of the last bytes commutes and is exact, so that any tree of combinations gives the same.
template <std::size_t bytes>
Affine<bytes> added(const Affine<bytes>& left, const Affine<bytes>& right) {
  Affine<bytes> made{left.a + right.a, left.b + right.b, {}};
  for (std::size_t k = 0; k < sizeof made.rest; ++k)
    made.rest[k] = static_cast<unsigned char>(left.rest[k] + right.rest[k]);
  return made;
}

template <class Element, Element (*combine)(const Element&, const Element&)>
void function(void* context, void* into, const void* left, const void* right, std::size_t count, anello_dtype_t dtype) {
  if (context != nullptr) static_cast<std::atomic<std::size_t>*>(context)->fetch_add(count);
  if (anello_dtype_size(dtype) != sizeof(Element)) return;  // the results will tell
  for (std::size_t i = 0; i < count; ++i) {
    Element l, r;
    std::memcpy(&l, static_cast<const unsigned char*>(left) + i * sizeof l, sizeof l);
    std::memcpy(&r, static_cast<const unsigned char*>(right) + i * sizeof r, sizeof r);
    const Element made = combine(l, r);
    std::memcpy(static_cast<unsigned char*>(into) + i * sizeof made, &made, sizeof made);
  }
}

anello_op_t make_op(const char* name, anello_op_function_t function, bool commutes, std::size_t bytes,
                    void* context = nullptr) {
  anello_op_config_t config = ANELLO_OP_CONFIG_INITIALIZER;
  config.name = name;
  config.function = function;
  config.context = context;
  config.commutes = commutes ? 1 : 0;
  config.element_bytes = bytes;
  anello_op_t op = ANELLO_SUM;
  if (anello_op_create(&config, &op) != ANELLO_OK) throw std::runtime_error(anello_last_error(ANELLO_COMM_NULL));
  return op;
}

template <std::size_t bytes, Affine<bytes> (*combine)(const Affine<bytes>&, const Affine<bytes>&)>
struct Reductions {
  using Element = Affine<bytes>;
  const Rank& me;
  anello_op_t op;
  std::size_t count;
  anello_dtype_t dtype = ANELLO_ELEMENT(bytes);

  std::vector<Element> inputs(std::size_t elements) const {
    std::vector<Element> made(elements);
    for (std::size_t i = 0; i < elements; ++i) made[i] = input<bytes>(me.rank, i);
    return made;
  }
  Element reduced(int ranks, std::size_t i) const {
    Element value = input<bytes>(0, i);
    for (int rank = 1; rank < ranks; ++rank) value = combine(value, input<bytes>(rank, i));
    return value;
  }
  void same(const char* call, const std::vector<Element>& got, int ranks, std::size_t from,
            std::size_t elements) const {
    for (std::size_t i = 0; i < elements; ++i) {
      if (got[i] == reduced(ranks, from + i)) continue;
      me.report.wrong("rank ", me.rank, " of ", me.size, ", ", call, " of ", count, " x ", bytes, " bytes: element ",
                      i);
      return;
    }
  }

  void run() const {
    const auto ranks = std::size_t(me.size);
    const auto self = std::size_t(me.rank);
    std::vector<Element> in = inputs(count), out(count);
    me.ok(anello_allreduce(in.data(), out.data(), count, dtype, op, me.comm), "allreduce");
    same("allreduce", out, me.size, 0, count);
    out = in;
    me.ok(anello_allreduce(ANELLO_IN_PLACE, out.data(), count, dtype, op, me.comm), "allreduce in place");
    same("allreduce in place", out, me.size, 0, count);
    const int root = me.size - 1;
    me.ok(anello_reduce(in.data(), out.data(), count, dtype, op, root, me.comm), "reduce");
    if (me.rank == root) same("reduce", out, me.size, 0, count);
    me.ok(anello_scan(in.data(), out.data(), count, dtype, op, me.comm), "scan");
    same("scan", out, me.rank + 1, 0, count);
    me.ok(anello_exscan(in.data(), out.data(), count, dtype, op, me.comm), "exscan");
    if (me.rank > 0) same("exscan", out, me.rank, 0, count);
    const std::vector<Element> all = inputs(count * ranks);
    me.ok(anello_reduce_scatter_block(all.data(), out.data(), count, dtype, op, me.comm), "reduce_scatter_block");
    same("reduce_scatter_block", out, me.size, self * count, count);
    std::vector<std::size_t> counts(ranks, count);
    me.ok(anello_reduce_scatter(all.data(), out.data(), counts.data(), dtype, op, me.comm), "reduce_scatter");
    same("reduce_scatter", out, me.size, self * count, count);
  }
};

struct Way {
  const char* transports;
  int size;
};
constexpr Way kWays[] = {{nullptr, 1}, {"inproc", 3}, {"shm", 2}, {"shm", 5}, {"tcp", 3}, {"tcp", 4}};

}  // namespace

TEST_CASE(
    "a function of the caller's own combines elements of any size, in the order of ranks where it does not commute") {
  const Way way = GENERATE(from_range(std::begin(kWays), std::end(kWays)));
  CAPTURE(way.transports == nullptr ? "alone" : way.transports, way.size);
  std::atomic<std::size_t> combined{0};
  const anello_op_t ordered = make_op("composition", function<Affine<12>, composed<12>>, false, 12);
  const anello_op_t torn = make_op("wide composition", function<Affine<24>, composed<24>>, false, 0);
  const anello_op_t wide = make_op("huge", function<Affine<5000>, added<5000>>, true, 5000, &combined);
  const anello_op_t sum = make_op("pieces", function<Affine<40>, added<40>>, true, 40);
  CHECK(run_ranks(way.size, way.transports, [&](const Rank& me) {
          for (const std::size_t count :
               {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{999}, std::size_t{60'001}}) {
            Reductions<12, composed<12>>{me, ordered, count}.run();
            Reductions<24, composed<24>>{me, torn, count}.run();
            Reductions<40, added<40>>{me, sum, count}.run();
          }
          for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{150}}) {
            Reductions<5000, added<5000>>{me, wide, count}.run();
          }
        }) == "");
  CHECK((combined > 0) == (way.size > 1));
  for (const anello_op_t op : {ordered, torn, wide, sum}) CHECK(anello_op_free(op) == ANELLO_OK);
}

TEST_CASE("elements of the caller's own move through every call that moves") {
  const char* transports = GENERATE("shm", "tcp");
  CHECK(run_ranks(3, transports, [](const Rank& me) {
          constexpr std::size_t kCount = 20'000;
          using Element = Affine<20>;
          const anello_dtype_t dtype = ANELLO_ELEMENT(20);
          const auto is = [&](const char* call, const Element& got, int rank, std::size_t i) {
            if (!(got == input<20>(rank, i)))
              me.report.wrong("rank ", me.rank, ", ", call, ": element ", i, " of rank ", rank);
          };
          std::vector<Element> in(kCount), all(kCount * 3);
          for (std::size_t i = 0; i < kCount; ++i) in[i] = input<20>(me.rank, i);
          me.ok(anello_allgather(in.data(), all.data(), kCount, dtype, me.comm), "allgather");
          for (int rank = 0; rank < 3; ++rank) {
            for (std::size_t i = 0; i < kCount; i += 777) is("allgather", all[std::size_t(rank) * kCount + i], rank, i);
          }
          std::vector<Element> copy = in;
          me.ok(anello_broadcast(copy.data(), kCount, dtype, 1, me.comm), "broadcast");
          for (std::size_t i = 0; i < kCount; i += 777) is("broadcast", copy[i], 1, i);
          const int next = (me.rank + 1) % 3, before = (me.rank + 2) % 3;
          anello_status_t status{};
          me.ok(anello_sendrecv(in.data(), kCount, next, 5, all.data(), kCount + 1, before, 5, dtype, me.comm, &status),
                "sendrecv");
          if (status.count != kCount) me.report.wrong("count ", status.count);
          for (std::size_t i = 0; i < kCount; i += 777) is("sendrecv", all[i], before, i);
          // A receive of another element is told so.
          me.ok(anello_send(in.data(), 3, dtype, me.rank, 6, me.comm), "send");
          me.fails(anello_recv(all.data(), 60, ANELLO_BYTE, me.rank, 6, me.comm, nullptr), ANELLO_ERR_MISMATCH,
                   "recv as bytes");
          const std::string text = anello_last_error(me.comm);
          if (text.find("element") == std::string::npos || text.find("byte") == std::string::npos)
            me.report.wrong(text);
        }) == "");
  CHECK(anello_dtype_size(ANELLO_ELEMENT(20)) == 20);
  CHECK(anello_dtype_size(ANELLO_ELEMENT(ANELLO_ELEMENT_MAX + 1)) == 0);
  CHECK(anello_dtype_size(ANELLO_ELEMENT(0)) == 0);
  CHECK(anello_dtype_name(ANELLO_ELEMENT(20)) == std::string("element"));
}

TEST_CASE("a premultiplied sum scales each rank's input by its own factor") {
  const Way way = GENERATE(from_range(std::begin(kWays), std::end(kWays)));
  const bool of_float32 = GENERATE(false, true);
  CAPTURE(way.transports == nullptr ? "alone" : way.transports, way.size, of_float32);
  CHECK(run_ranks(way.size, way.transports,
                  [&](const Rank& me) {
    const auto ranks = std::size_t(me.size);
    for (const anello_dtype_t dtype : kTypes) {
      const bool real_factor = of_float32 && floats(dtype);
      std::vector<unsigned char> scalar(16);
      put(scalar, real_factor ? ANELLO_FLOAT32 : dtype, 0, me.rank + 1);
      anello_op_t op = ANELLO_SUM;
      me.ok(anello_op_create_premul_sum(scalar.data(), real_factor ? ANELLO_FLOAT32 : dtype, &op), "create");
      const auto check =
          [&](const char* call, const std::vector<unsigned char>& got, int upto, std::size_t from, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
          double expected = 0;
          for (int rank = 0; rank < upto; ++rank) expected += (rank + 1) * number(rank, from + i);
          if (!close(get(got, dtype, i), expected, dtype)) {
            me.report.wrong("rank ", me.rank, " of ", me.size, ", ", call, " of ", n, " ", anello_dtype_name(dtype),
                            ": element ", i, " is ", get(got, dtype, i), " in place of ", expected);
            return;
          }
        }
      };
      for (const std::size_t count : {std::size_t{1}, std::size_t{777}, std::size_t{40'000}}) {
        const std::size_t element = anello_dtype_size(dtype);
        std::vector<unsigned char> in(count * ranks * element), out(count * ranks * element);
        for (std::size_t i = 0; i < count * ranks; ++i) put(in, dtype, i, number(me.rank, i));
        const std::vector<unsigned char> untouched = in;
        me.ok(anello_allreduce(in.data(), out.data(), count, dtype, op, me.comm), "allreduce");
        check("allreduce", out, me.size, 0, count);
        me.ok(anello_reduce_scatter_block(in.data(), out.data(), count, dtype, op, me.comm), "reduce_scatter_block");
        check("reduce_scatter_block", out, me.size, std::size_t(me.rank) * count, count);
        const std::vector<std::size_t> counts(ranks, count);
        me.ok(anello_reduce_scatter(in.data(), out.data(), counts.data(), dtype, op, me.comm), "reduce_scatter");
        check("reduce_scatter", out, me.size, std::size_t(me.rank) * count, count);
        me.ok(anello_reduce(in.data(), me.rank == 0 ? out.data() : nullptr, count, dtype, op, 0, me.comm), "reduce");
        if (me.rank == 0) check("reduce", out, me.size, 0, count);
        me.ok(anello_scan(in.data(), out.data(), count, dtype, op, me.comm), "scan");
        check("scan", out, me.rank + 1, 0, count);
        std::fill(out.begin(), out.end(), static_cast<unsigned char>(0x5c));
        me.ok(anello_exscan(in.data(), out.data(), count, dtype, op, me.comm), "exscan");
        if (me.rank > 0) check("exscan", out, me.rank, 0, count);
        if (me.rank == 0 && std::count(out.begin(), out.end(), 0x5c) != std::ptrdiff_t(out.size())) {
          me.report.wrong("exscan wrote to rank 0's recvbuf");
        }
        if (in != untouched)
          me.report.wrong("rank ", me.rank, ": sendbuf of ", anello_dtype_name(dtype), " was written");
        std::vector<unsigned char> both = in;
        me.ok(anello_reduce_scatter_block(ANELLO_IN_PLACE, both.data(), count, dtype, op, me.comm), "rs in place");
        check("reduce_scatter_block in place", both, me.size, std::size_t(me.rank) * count, count);
        both = in;
        anello_request_t request = ANELLO_REQUEST_NULL;
        me.ok(anello_allreduce_init(ANELLO_IN_PLACE, both.data(), count, dtype, op, me.comm, &request), "init");
        for (int turn = 0; turn < 2; ++turn) {
          std::copy(in.begin(), in.end(), both.begin());
          me.ok(anello_start(&request), "start");
          me.ok(anello_wait(&request, nullptr), "wait");
          check("allreduce persistent", both, me.size, 0, count);
        }
        me.ok(anello_request_free(&request), "free");
      }
      me.ok(anello_op_free(op), "op_free");
    }
        }) == "");
}

TEST_CASE("a premultiplied sum of 16-bit floats rounds once") {
  // 1 + 2^-9 and a factor of 3: the product 3 + 3 * 2^-9 does not fit a bfloat16, whose step at 3 is 2^-6; rounded
  // before the sum the two small parts would be lost.
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const float factor = 1.0f + 0x1p-9f;
          anello_op_t op = ANELLO_SUM;
          me.ok(anello_op_create_premul_sum(&factor, ANELLO_FLOAT32, &op), "create");
          std::uint16_t value = to_bfloat16(2.0f);
          // Each product is 2 + 2^-8: rounded to bfloat16 (step 2^-6) that is 2. The exact sum is 4 + 2^-7 (step
          // 2^-5): 4. With 3 in place of 2 on one rank: 5 + 5 * 2^-9.
          if (me.rank == 1) value = to_bfloat16(2.015625f);  // 2 + 2^-6: its product 2 + 2^-6 + 2^-8 + 2^-15
          // Sum: 4 + 2^-6 + 2^-7 + 2^-15 = 4.0234680: above the middle of 4 and 4.03125 only because nothing was
          // rounded before.
          me.ok(anello_allreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_BFLOAT16, op, me.comm), "allreduce");
          if (from_bfloat16(value) != 4.03125f) me.report.wrong("got ", from_bfloat16(value));
          me.ok(anello_op_free(op), "free");
        }) == "");
}

TEST_CASE("operations of another name are told apart, by name") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const anello_op_t mine = make_op(me.rank == 0 ? "first" : "second", function<Affine<16>, added<16>>, true, 0);
          Affine<16> value = input<16>(me.rank, 0);
          me.fails(anello_allreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_ELEMENT(16), mine, me.comm), ANELLO_ERR_MISMATCH,
                   "allreduce");
          const std::string text = anello_last_error(me.comm);
          for (const char* part : {"first", "second", "rank 0", "rank 1"}) {
            if (text.find(part) == std::string::npos) me.report.wrong("no '", part, "' in: ", text);
          }
          me.ok(anello_op_free(mine), "free");
        }) == "");
}

TEST_CASE("a function that calls Anello is refused, and one that throws ends the communicator, on every rank") {
  static anello_comm_t own = ANELLO_COMM_NULL;
  static std::atomic<int> refused{0};
  refused = 0;
  const anello_op_t calls = make_op(
      "calls back",
      [](void*, void*, const void*, const void*, std::size_t, anello_dtype_t) {
    int rank = -1;
    if (anello_comm_rank(own, &rank) == ANELLO_ERR_STATE) ++refused;
      },
      true, 0);
  const anello_op_t throws = make_op(
      "throws",
      [](void*, void*, const void*, const void*, std::size_t, anello_dtype_t) { throw std::runtime_error("no"); }, true,
      0);
  const std::size_t count = GENERATE(std::size_t{4}, std::size_t{200'000});
  CHECK(run_ranks(2, "shm", [&](const Rank& me) {
          std::vector<float> values(count);
          if (me.rank == 0) own = me.comm;
          me.ok(anello_barrier(me.comm), "barrier");
          me.ok(anello_allreduce(ANELLO_IN_PLACE, values.data(), count, ANELLO_FLOAT32, calls, me.comm), "allreduce");
          me.fails(anello_allreduce(ANELLO_IN_PLACE, values.data(), count, ANELLO_FLOAT32, throws, me.comm),
                   ANELLO_ERR_STATE, "allreduce");
          const std::string text = anello_last_error(me.comm);
          if (text.find("'throws'") == std::string::npos) me.report.wrong(text);
        }) == "");
  CHECK(refused > 0);
  CHECK(anello_op_free(calls) == ANELLO_OK);
  CHECK(anello_op_free(throws) == ANELLO_OK);
}

TEST_CASE("operations that cannot be made or used are refused with what would do") {
  anello_op_t op = ANELLO_SUM;
  anello_op_config_t config = ANELLO_OP_CONFIG_INITIALIZER;
  CHECK(anello_op_create(nullptr, &op) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_op_create(&config, &op) == ANELLO_ERR_ARGUMENT);
  config.function = function<Affine<16>, added<16>>;
  CHECK(anello_op_create(&config, &op) == ANELLO_ERR_ARGUMENT);
  const std::string too_long(64, 'x');
  config.name = too_long.c_str();
  CHECK(anello_op_create(&config, &op) == ANELLO_ERR_ARGUMENT);
  config.name = "sixteen";
  CHECK(anello_op_create(&config, nullptr) == ANELLO_ERR_ARGUMENT);
  config.element_bytes = 16;
  CHECK(anello_op_create(&config, &op) == ANELLO_OK);
  CHECK(anello_op_free(ANELLO_SUM) == ANELLO_ERR_ARGUMENT);
  const bool scalar = true;
  anello_op_t premul = ANELLO_SUM;
  CHECK(anello_op_create_premul_sum(&scalar, ANELLO_BOOL, &premul) == ANELLO_ERR_TYPE);
  const double factor = 0.5;
  CHECK(anello_op_create_premul_sum(&factor, ANELLO_FLOAT64, &premul) == ANELLO_OK);

  anello_comm_t comm = ANELLO_COMM_NULL;
  REQUIRE(anello_comm_create_all(1, &comm) == ANELLO_OK);
  float value[4]{};
  const auto says = [&](const char* part) {
    return std::string(anello_last_error(comm)).find(part) != std::string::npos;
  };
  CHECK(anello_allreduce(ANELLO_IN_PLACE, value, 1, ANELLO_FLOAT32, op, comm) == ANELLO_ERR_TYPE);
  CHECK(says("16 bytes, and float32 has 4"));
  CHECK(anello_allreduce(ANELLO_IN_PLACE, value, 1, ANELLO_ELEMENT(16), ANELLO_SUM, comm) == ANELLO_ERR_TYPE);
  CHECK(anello_allreduce(ANELLO_IN_PLACE, value, 1, ANELLO_INT32, premul, comm) == ANELLO_ERR_TYPE);
  CHECK(says("make one of int32"));
  CHECK(anello_allreduce(ANELLO_IN_PLACE, value, 1, ANELLO_BOOL, premul, comm) == ANELLO_ERR_TYPE);
  CHECK(anello_op_free(op) == ANELLO_OK);
  CHECK(anello_op_free(op) == ANELLO_ERR_STATE);
  CHECK(anello_allreduce(ANELLO_IN_PLACE, value, 1, ANELLO_ELEMENT(16), op, comm) == ANELLO_ERR_STATE);
  CHECK(anello_op_free(premul) == ANELLO_OK);
  CHECK(anello_comm_destroy(comm) == ANELLO_OK);
}
