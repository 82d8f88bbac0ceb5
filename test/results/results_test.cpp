// Every collective that reduces, in every type and operation that makes sense, on any number of ranks. Environment:
// RESULTS_RANKS and RESULTS_TRANSPORTS say which ("2,5", "shm"), RESULTS_BOUND on how many processors they take turns,
// each bound to one of them; what the library reads (ANELLO_ALGORITHM, ANELLO_INVARIANT, ANELLO_CHUNK_BYTES) is set for
// the whole program.
#include "results/judge.h"
#include "support/catch.h"
#include "support/processors.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <sstream>

namespace anello::results {
namespace {

using Bytes = std::vector<unsigned char>;
using test::Rank;

std::string environment(const char* name, const char* fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fallback : value;
}
std::vector<std::string> parts(const std::string& list) {
  std::vector<std::string> result;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) result.push_back(part);
  return result;
}

// What a type and operation come to on `size` ranks: shared by the ranks, which are threads here.
struct Reduction {
  Reduction(anello_dtype_t type, anello_op_t operation, std::size_t elements, int size, bool invariant)
      : dtype(type), op(operation), count(elements), bytes(elements * anello_dtype_size(type)) {
    for (int rank = 0; rank < size; ++rank) operands.push_back(results::operands(type, operation, rank, elements));
    whole = std::make_unique<Judge>(type, operation, operands, size - 1, size, invariant);
    for (int rank = 0; rank < size && operation != ANELLO_AVG; ++rank) {
      prefixes.push_back(std::make_unique<Judge>(type, operation, operands, rank, size, invariant));
    }
    // Parts that differ in count, one of them empty.
    for (int rank = 0; rank < size; ++rank) counts.push_back(elements / std::size_t(size) + (rank % 2 == 0 ? 3 : 0));
    counts[std::size_t(size - 1)] = 0;
    const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t(0));
    if (sum <= elements)
      counts[0] += elements - sum;
    else
      counts.assign(std::size_t(size), 0), counts[0] = elements;
  }

  anello_dtype_t dtype;
  anello_op_t op;
  std::size_t count;
  std::size_t bytes;
  std::vector<Bytes> operands;
  std::unique_ptr<Judge> whole;
  std::vector<std::unique_ptr<Judge>> prefixes;
  std::vector<std::size_t> counts;
  std::atomic<const unsigned char*> first{nullptr};  // of rank 0's result
};

class Check {
 public:
  Check(const Rank& me, Reduction& reduction)
      : me_(me), r_(reduction), in_(r_.operands[std::size_t(me.rank)]), out_(r_.bytes + 1) {}

  void run() {
    call("allreduce", anello_allreduce(in_.data(), out_.data(), r_.count, r_.dtype, r_.op, me_.comm));
    judge("allreduce", *r_.whole, 0, r_.count);
    equal_everywhere();
    const int root = int(r_.count) % me_.size;
    call("reduce", anello_reduce(in_.data(), out_.data(), r_.count, r_.dtype, r_.op, root, me_.comm));
    if (me_.rank == root) judge("reduce", *r_.whole, 0, r_.count);
    const std::size_t block = r_.count / std::size_t(me_.size);
    call("reduce_scatter_block",
         anello_reduce_scatter_block(in_.data(), out_.data(), block, r_.dtype, r_.op, me_.comm));
    judge("reduce_scatter_block", *r_.whole, block * std::size_t(me_.rank), block);
    call("reduce_scatter", anello_reduce_scatter(in_.data(), out_.data(), r_.counts.data(), r_.dtype, r_.op, me_.comm));
    judge("reduce_scatter", *r_.whole, std::accumulate(r_.counts.begin(), r_.counts.begin() + me_.rank, std::size_t(0)),
          r_.counts[std::size_t(me_.rank)]);
    if (r_.op == ANELLO_AVG) return;
    call("scan", anello_scan(in_.data(), out_.data(), r_.count, r_.dtype, r_.op, me_.comm));
    judge("scan", *r_.prefixes[std::size_t(me_.rank)], 0, r_.count);
    call("exscan", anello_exscan(in_.data(), out_.data(), r_.count, r_.dtype, r_.op, me_.comm));
    if (me_.rank > 0) judge("exscan", *r_.prefixes[std::size_t(me_.rank - 1)], 0, r_.count);
  }

 private:
  std::string what(const char* name) const {
    return std::string(name) + " " + anello_dtype_name(r_.dtype) + " " + anello_op_name(r_.op) + " of " +
           std::to_string(r_.count);
  }
  void call(const char* name, anello_result_t result) { me_.ok(result, what(name)); }
  void judge(const char* name, const Judge& by, std::size_t first, std::size_t count) {
    const std::string wrong = by.look(out_.data(), first, count);
    if (!wrong.empty()) me_.report.wrong("rank ", me_.rank, " of ", me_.size, ", ", what(name), ": ", wrong);
  }
  // The ranks share their memory, so they can look at each other's.
  void equal_everywhere() {
    if (me_.rank == 0) r_.first = out_.data();
    me_.ok(anello_barrier(me_.comm), "barrier");
    if (std::memcmp(r_.first, out_.data(), r_.bytes) != 0)
      me_.report.wrong("ranks 0 and ", me_.rank, " differ in ", what("allreduce"));
    me_.ok(anello_barrier(me_.comm), "barrier");
  }

  const Rank& me_;
  Reduction& r_;
  const Bytes& in_;
  Bytes out_;
};

}  // namespace

TEST_CASE("every reduction is what it may be, and the same bits on every rank") {
  const bool invariant = environment("ANELLO_INVARIANT", "0") == "1";
  const auto bound = std::stoul(environment("RESULTS_BOUND", "0"));
  const std::vector<int> processors = test::allowed_processors();
  if (processors.size() < bound) {
    WARN("skipped: this process may use " << processors.size() << " of the " << bound
                                          << " processors that ranks are to be bound to");
    return;
  }
  std::function<void(int)> bind;
  if (bound > 0) bind = [&](int rank) { test::bind_to(processors[std::size_t(rank) % bound]); };
  for (const std::string& transport : parts(environment("RESULTS_TRANSPORTS", "inproc"))) {
    for (const std::string& number : parts(environment("RESULTS_RANKS", "1,2,3,4,5,6,7,8,9"))) {
      const int size = std::stoi(number);
      CAPTURE(transport, size, invariant);
      // Few elements (some ranks have no block), some, and several chunks of 64 KiB.
      for (const std::size_t count : {std::size_t(5), std::size_t(611), std::size_t(20'011)}) {
        std::vector<std::unique_ptr<Reduction>> all;
        for (const anello_dtype_t dtype : test::all_dtypes()) {
          for (const anello_op_t op : test::ops_of(dtype)) {
            // Of many elements only where an order can matter or a rounding be lost.
            const bool floats =
                test::class_of(dtype) == test::Class::floating || test::class_of(dtype) == test::Class::complex;
            if (count > 1000 && (!floats || op == ANELLO_MIN || op == ANELLO_MAX || op == ANELLO_PROD || size > 5))
              continue;
            all.push_back(std::make_unique<Reduction>(dtype, op, count, size, invariant));
          }
        }
        CHECK(test::run_ranks(
                  size, transport.c_str(),
                  [&](const Rank& me) {
          for (const auto& reduction : all) Check(me, *reduction).run();
                  },
                  20'000, bind) == "");
      }
    }
  }
}

TEST_CASE("the judge holds most elements to bits or an interval, and notices one bit") {
  for (const anello_dtype_t dtype : test::all_dtypes()) {
    for (const anello_op_t op : test::ops_of(dtype)) {
      Reduction reduction(dtype, op, 2000, 3, false);
      // The result of rank order must pass, for it is one of those that are right.
      Bytes result(reduction.bytes);
      test::reduce(dtype, op,
                   {reduction.operands[0].data(), reduction.operands[1].data(), reduction.operands[2].data()}, 2000, 3,
                   result.data());
      CHECK(reduction.whole->look(result.data(), 0, 2000) == "");
      const Judge::Seen& seen = reduction.whole->seen();
      INFO(anello_dtype_name(dtype) << " " << anello_op_name(op) << ": " << seen.bits << " " << seen.interval << " "
                                    << seen.neither);
      CHECK(seen.bits + seen.interval > 2000 / 4);
      result[0] ^= 1;
      CHECK(reduction.whole->look(result.data(), 0, 1) != "");
    }
  }
}

}  // namespace anello::results
