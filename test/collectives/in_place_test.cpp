// Every form in place that anello.h lists, of MPI by marker and of NCCL by address: what comes out, and that nothing
// else of the buffer changes.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

using Sizes = std::vector<std::size_t>;
using Numbers = std::vector<std::int32_t>;

constexpr std::int32_t kUntouched = -77;

std::int32_t given(int from, std::size_t i) {
  return std::int32_t((std::size_t(from) * 1'000'003 + i * 7) % 1'000'000);
}

enum class Says { marker, address };
enum class Form { blocking, nonblocking, persistent, grouped };

// One rank's buffer, before and after, and where its two arguments lie in it.
struct Placed {
  Numbers before, after;
  std::size_t input = 0, output = 0;  // where it is given by address
  std::size_t unspecified_from = SIZE_MAX;
};

class Play {
 public:
  // counts, displs: of forms with varying parts, equal on all ranks; they have as many elements for every other rank,
  // too.
  Play(const Rank& me, std::size_t count, Sizes counts, Sizes displs)
      : me_(me),
        size_(std::size_t(me.size)),
        self_(std::size_t(me.rank)),
        count_(count),
        counts_(std::move(counts)),
        displs_(std::move(displs)) {}

  void run(anello_kind_t kind, Says says, Form form, int root, const char* algorithm) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = kind;
    call.dtype = ANELLO_INT32;
    call.op = ANELLO_SUM;
    call.count = count_;
    call.peer = root;
    call.algorithm = algorithm;
    Placed placed = place(kind, says, root);
    Numbers buffer = placed.before;
    const bool scatter = kind == ANELLO_SCATTER || kind == ANELLO_SCATTERV;
    const bool in_place = !rooted(kind) || me_.rank == root;
    call.recvbuf = buffer.data() + placed.output;
    call.sendbuf = buffer.data() + placed.input;
    if (in_place && says == Says::marker) {
      if (scatter)
        call.recvbuf = const_cast<void*>(ANELLO_IN_PLACE);
      else
        call.sendbuf = ANELLO_IN_PLACE;
    }
    if (!in_place) (scatter ? const_cast<void*&>(call.sendbuf) : call.recvbuf) = nullptr;
    set_counts(call);
    perform(call, form, root, placed, buffer);
  }

 private:
  static bool rooted(anello_kind_t kind) {
    return kind == ANELLO_REDUCE || kind == ANELLO_GATHER || kind == ANELLO_GATHERV || kind == ANELLO_SCATTER ||
           kind == ANELLO_SCATTERV;
  }
  std::size_t total() const { return std::accumulate(counts_.begin(), counts_.end(), std::size_t(0)); }
  std::size_t end() const { return displs_.empty() ? 0 : displs_.front() + counts_.front() + 3; }

  void set_counts(anello_call_t& call) const {
    switch (call.kind) {
      case ANELLO_ALLGATHERV:
      case ANELLO_GATHERV:
        call.count = counts_[self_];
        call.recvcounts = counts_.data();
        call.rdispls = displs_.data();
        break;
      case ANELLO_SCATTERV:
        call.count = counts_[self_];
        call.sendcounts = counts_.data();
        call.sdispls = displs_.data();
        break;
      case ANELLO_REDUCE_SCATTER: call.recvcounts = counts_.data(); break;
      case ANELLO_ALLTOALLV:
        call.recvcounts = own_counts_.data();
        call.rdispls = own_displs_.data();
        break;
      default: break;
    }
  }

  std::int32_t sum(int last, std::size_t i) const {
    std::int32_t all = 0;
    for (int rank = 0; rank <= last; ++rank) all += given(rank, i);
    return all;
  }

  // Fills count elements of `into` from `at` on with value(i).
  template <class Value>
  static void fill(Numbers& into, std::size_t at, std::size_t count, Value&& value) {
    for (std::size_t i = 0; i < count; ++i) into[at + i] = value(i);
  }

  Placed place(anello_kind_t kind, Says says, int root) {
    Placed placed;
    const auto mine = [&](std::size_t i) { return given(me_.rank, i); };
    const auto whole = [&](std::size_t elements) { placed.before.assign(elements, kUntouched); };
    const std::size_t all = size_ * count_;
    const bool by_address = says == Says::address;
    const bool at_root = !rooted(kind) || me_.rank == root;
    switch (kind) {
      case ANELLO_ALLREDUCE:
      case ANELLO_SCAN:
      case ANELLO_EXSCAN:
      case ANELLO_REDUCE: {
        whole(count_);
        fill(placed.before, 0, count_, mine);
        placed.after = placed.before;
        const int last = kind == ANELLO_EXSCAN ? me_.rank - 1 : kind == ANELLO_SCAN ? me_.rank : me_.size - 1;
        if (at_root && last >= 0) fill(placed.after, 0, count_, [&](std::size_t i) { return sum(last, i); });
        break;
      }
      case ANELLO_ALLTOALL:
        whole(all);
        fill(placed.before, 0, all, mine);
        placed.after = placed.before;
        fill(placed.after, 0, all, [&](std::size_t i) { return given(int(i / count_), self_ * count_ + i % count_); });
        break;
      case ANELLO_ALLTOALLV:
        // What goes between two ranks is as long both ways.
        own_counts_.resize(size_);
        own_displs_.resize(size_);
        whole(0);
        for (std::size_t p = 0; p < size_; ++p) {
          own_counts_[p] = (self_ + p) % 3 * count_ + self_ * p % 2;
          own_displs_[p] = placed.before.size() + 1;
          placed.before.resize(own_displs_[p] + own_counts_[p], kUntouched);
          fill(placed.before, own_displs_[p], own_counts_[p],
               [&](std::size_t i) { return given(me_.rank, p * 5000 + i); });
        }
        placed.after = placed.before;
        for (std::size_t p = 0; p < size_; ++p)
          fill(placed.after, own_displs_[p], own_counts_[p],
               [&](std::size_t i) { return given(int(p), self_ * 5000 + i); });
        break;
      case ANELLO_ALLGATHER:
      case ANELLO_GATHER:
        whole(all);
        placed.input = self_ * count_;
        fill(placed.before, placed.input, count_, mine);
        placed.after = placed.before;
        if (at_root) fill(placed.after, 0, all, [&](std::size_t i) { return given(int(i / count_), i % count_); });
        break;
      case ANELLO_ALLGATHERV:
      case ANELLO_GATHERV:
        whole(end());
        placed.input = displs_[self_];
        fill(placed.before, placed.input, counts_[self_], mine);
        placed.after = placed.before;
        for (std::size_t p = 0; at_root && p < size_; ++p)
          fill(placed.after, displs_[p], counts_[p], [&](std::size_t i) { return given(int(p), i); });
        break;
      case ANELLO_SCATTER:
        whole(all);
        placed.output = self_ * count_;
        if (at_root) fill(placed.before, 0, all, mine);
        placed.after = placed.before;
        if (!at_root)
          fill(placed.after, placed.output, count_, [&](std::size_t i) { return given(root, placed.output + i); });
        break;
      case ANELLO_SCATTERV:
        whole(end());
        placed.output = displs_[self_];
        if (at_root) fill(placed.before, 0, end(), mine);
        placed.after = placed.before;
        if (at_root) break;
        fill(placed.after, placed.output, counts_[self_],
             [&](std::size_t i) { return given(root, placed.output + i); });
        break;
      case ANELLO_REDUCE_SCATTER_BLOCK:
      case ANELLO_REDUCE_SCATTER: {
        const bool even = kind == ANELLO_REDUCE_SCATTER_BLOCK;
        const std::size_t own = even ? count_ : counts_[self_];
        const std::size_t at =
            even ? self_ * count_ : std::accumulate(counts_.begin(), counts_.begin() + me_.rank, std::size_t(0));
        whole(even ? all : total());
        fill(placed.before, 0, placed.before.size(), mine);
        placed.after = placed.before;
        placed.output = by_address ? at : 0;
        if (!by_address) placed.unspecified_from = own;
        fill(placed.after, placed.output, own, [&](std::size_t i) { return sum(me_.size - 1, at + i); });
        break;
      }
      default: break;
    }
    return placed;
  }

  void perform(const anello_call_t& call, Form form, int root, const Placed& placed, Numbers& buffer) {
    const std::string what = "kind " + std::to_string(call.kind) + " of " + std::to_string(count_) + ", root " +
                             std::to_string(root) + ", form " + std::to_string(int(form)) +
                             (call.algorithm != nullptr ? std::string(", ") + call.algorithm : "");
    anello_request_t request = ANELLO_REQUEST_NULL;
    const int rounds = form == Form::persistent ? 2 : 1;
    if (form == Form::persistent) me_.ok(anello_post_init(me_.comm, &call, &request), what + ", init");
    for (int round = 0; round < rounds; ++round) {
      if (round > 0) std::copy(placed.before.begin(), placed.before.end(), buffer.begin());
      if (form == Form::persistent) {
        me_.ok(anello_start(&request), what + ", start");
        me_.ok(anello_wait(&request, nullptr), what + ", wait");
      } else if (form == Form::nonblocking) {
        me_.ok(anello_post(me_.comm, &call, &request), what);
        me_.ok(anello_wait(&request, nullptr), what + ", wait");
      } else {
        if (form == Form::grouped) me_.ok(anello_group_begin(), "group_begin");
        me_.ok(anello_post(me_.comm, &call, nullptr), what);
        if (form == Form::grouped) me_.ok(anello_group_end(), "group_end");
      }
      const std::size_t specified = std::min(buffer.size(), placed.unspecified_from);
      for (std::size_t i = 0; i < specified; ++i)
        if (buffer[i] != placed.after[i]) {
          me_.report.wrong("rank ", me_.rank, " of ", me_.size, ", ", what, ": element ", i, " is ", buffer[i],
                           ", not ", placed.after[i]);
          break;
        }
    }
    if (form == Form::persistent) me_.ok(anello_request_free(&request), "free");
  }

  const Rank& me_;
  const std::size_t size_, self_, count_;
  const Sizes counts_, displs_;
  Sizes own_counts_, own_displs_;
};

// Some parts empty; from the last rank's on, a gap behind each.
void play(const Rank& me, std::size_t count, const char* algorithm, const std::vector<anello_kind_t>& kinds) {
  Sizes counts(std::size_t(me.size)), displs(std::size_t(me.size));
  std::size_t at = 0;
  for (int p = me.size - 1; p >= 0; --p) {
    counts[std::size_t(p)] = std::size_t(p) % 3 * count + std::size_t(p) % 2;
    displs[std::size_t(p)] = at;
    at += counts[std::size_t(p)] + 2;
  }
  Play round(me, count, counts, displs);
  for (const anello_kind_t kind : kinds)
    for (const Says says : {Says::marker, Says::address})
      for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent, Form::grouped})
        round.run(kind, says, form, me.size / 2, algorithm);
}

const std::vector<anello_kind_t> kAll = {ANELLO_ALLREDUCE,      ANELLO_ALLGATHER, ANELLO_REDUCE_SCATTER_BLOCK,
                                         ANELLO_REDUCE,         ANELLO_GATHER,    ANELLO_SCATTER,
                                         ANELLO_ALLTOALL,       ANELLO_SCAN,      ANELLO_EXSCAN,
                                         ANELLO_ALLGATHERV,     ANELLO_GATHERV,   ANELLO_SCATTERV,
                                         ANELLO_REDUCE_SCATTER, ANELLO_ALLTOALLV};

}  // namespace

TEST_CASE("every form in place, of MPI and of NCCL, is right over every transport, in every way to make a call") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(1, 2, 3, 5);
  CAPTURE(transports, size);
  CHECK(run_ranks(size, transports.c_str(), [](const Rank& me) {
          for (const std::size_t count : {1u, 9u, 3000u, 70'001u}) play(me, count, nullptr, kAll);
        }) == "");
}

TEST_CASE("a reduce_scatter into this rank's part of its input is right by every algorithm") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  const int size = GENERATE(2, 3, 4);
  CAPTURE(transports, size);
  CHECK(run_ranks(size, transports.c_str(), [&](const Rank& me) {
          for (const char* algorithm : {"ring", "pairwise", "halving", "exchange", "direct"}) {
            const bool fits = std::strcmp(algorithm, "halving") != 0 || size != 3;
            const bool in_memory = std::strcmp(algorithm, "exchange") == 0 || std::strcmp(algorithm, "direct") == 0;
            if (!fits || (in_memory && transports == "tcp")) continue;
            for (const std::size_t count : {1u, 700u, 30'000u})
              if (count < 1000 || std::strcmp(algorithm, "exchange") != 0)
                play(me, count, algorithm, {ANELLO_REDUCE_SCATTER_BLOCK});
          }
        }) == "");
}

TEST_CASE("another rank's part, or a part of it, is no place for a reduce_scatter's result") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          // Both ranks are refused alike: that leaves the communicator as it is.
          float x[9] = {};
          const std::size_t counts[] = {4, 4};
          float* const others = x + 4 * (1 - me.rank);
          me.fails(anello_reduce_scatter_block(x, others, 4, ANELLO_FLOAT32, ANELLO_SUM, me.comm), ANELLO_ERR_ARGUMENT,
                   "another's part");
          const std::string why = anello_last_error(me.comm);
          if (why.find("this rank's part of sendbuf") == std::string::npos) me.report.wrong("the error says: ", why);
          me.fails(anello_reduce_scatter(x, x + 4 * me.rank + 1, counts, ANELLO_FLOAT32, ANELLO_SUM, me.comm),
                   ANELLO_ERR_ARGUMENT, "beside its part");
        }) == "");
}

TEST_CASE("scaled sums, averages and operations of one's own leave the rest of a reduce_scatter's input alone") {
  const auto transports = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CHECK(run_ranks(3, transports.c_str(), [](const Rank& me) {
          const float factor = float(me.rank + 1);
          anello_op_t scaled;
          me.ok(anello_op_create_premul_sum(&factor, ANELLO_FLOAT32, &scaled), "op_create_premul_sum");
          for (const std::size_t count : {std::size_t(5), std::size_t(20'000)}) {
            for (const auto& [op, all] :
                 {std::pair<anello_op_t, float>{scaled, 1 + 2 * 2 + 3 * 3}, {ANELLO_AVG, 2}, {ANELLO_MAX, 3}}) {
              std::vector<float> x(count * 3, float(me.rank + 1));
              me.ok(anello_reduce_scatter_block(x.data(), x.data() + count * std::size_t(me.rank), count,
                                                ANELLO_FLOAT32, op, me.comm),
                    "reduce_scatter_block");
              for (std::size_t i = 0; i < x.size(); ++i) {
                const float expected = i / count == std::size_t(me.rank) ? all : float(me.rank + 1);
                if (x[i] == expected) continue;
                me.report.wrong("rank ", me.rank, ", operation ", int(op), " of ", count, ": element ", i, " is ", x[i],
                                ", not ", expected);
                break;
              }
            }
          }
          me.ok(anello_op_free(scaled), "op_free");
        }) == "");
}
