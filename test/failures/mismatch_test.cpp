// Ranks that make different calls: every one hears what the others called, also a root that had returned before.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <array>
#include <sstream>
#include <thread>

using namespace failures;

namespace {

struct Called {
  std::string kind = "barrier";
  std::size_t count = 0;
  int dtype = ANELLO_FLOAT32;
  int op = ANELLO_SUM;
  int root = 0;
  bool null = false;  // refused: no buffers

  std::string text() const {
    std::ostringstream out;
    out << kind << " " << count << " " << dtype << " " << op << " " << root << " " << null;
    return out.str();
  }
  static Called read(std::istream& in) {
    Called call;
    in >> call.kind >> call.count >> call.dtype >> call.op >> call.root >> call.null;
    return call;
  }
  // As the error texts have it.
  std::string described() const {
    if (kind == "barrier" || kind == "comm_dup") return kind + "()";
    std::string words = kind + "(count " + std::to_string(count) + ", " + anello_dtype_name(anello_dtype_t(dtype));
    if (kind == "allreduce" || kind == "reduce_scatter_block" || kind == "reduce" || kind == "scan")
      words += std::string(", ") + anello_op_name(anello_op_t(op));
    if (kind == "broadcast" || kind == "reduce" || kind == "gather") words += ", root " + std::to_string(root);
    return words + ")";
  }
};

anello_result_t make(const Called& call, std::vector<char>& input, std::vector<char>& output, anello_comm_t comm) {
  const auto dtype = anello_dtype_t(call.dtype);
  const auto op = anello_op_t(call.op);
  void* const in = call.null ? nullptr : input.data();
  void* const out = call.null ? nullptr : output.data();
  if (call.kind == "allreduce") return anello_allreduce(in, out, call.count, dtype, op, comm);
  if (call.kind == "broadcast") return anello_broadcast(out, call.count, dtype, call.root, comm);
  if (call.kind == "allgather") return anello_allgather(in, out, call.count, dtype, comm);
  if (call.kind == "reduce_scatter_block") return anello_reduce_scatter_block(in, out, call.count, dtype, op, comm);
  if (call.kind == "reduce") return anello_reduce(in, out, call.count, dtype, op, call.root, comm);
  if (call.kind == "gather") return anello_gather(in, out, call.count, dtype, call.root, comm);
  if (call.kind == "alltoall") return anello_alltoall(in, out, call.count, dtype, comm);
  if (call.kind == "scan") return anello_scan(in, out, call.count, dtype, op, comm);
  if (call.kind == "comm_dup") {
    anello_comm_t other = ANELLO_COMM_NULL;
    return anello_comm_dup(comm, call.null ? nullptr : &other);
  }
  if (call.kind == "comm_split") return anello_comm_split(comm, -5, 0, nullptr);
  return anello_barrier(comm);
}

// Drives world, and with it all that happens to its siblings, until comm has failed.
void drive_until_failed(Rank& me, anello_comm_t world, anello_comm_t comm) {
  const std::int64_t end = now_ns() + 10'000'000'000;
  anello_request_t request = ANELLO_REQUEST_NULL;
  char byte = 0;
  me.check(anello_irecv(&byte, 1, ANELLO_UINT8, me.rank(), 1, world, &request), "irecv", world);
  int done = 0;
  const auto failed = [comm] {
    // On another thread: this one's last error may be that its call was refused.
    bool any = false;
    std::thread([&] { any = *anello_last_error(comm) != '\0'; }).join();
    return any;
  };
  while (!failed() && now_ns() < end) {
    me.check(anello_test(&request, &done, nullptr), "test", world);
    sleep_ms(1);
  }
  me.check(anello_send(&byte, 1, ANELLO_UINT8, me.rank(), 1, world), "send", world);
  me.check(anello_wait(&request, nullptr), "wait", world);
}

// Calls of the judge, each on a communicator of its own: "then KIND.." where "then" says how a rank that the call
// itself told nothing goes on, with another call or with destroy.
const Role disagreeing("disagreeing", [](Rank& me) {
  const anello_comm_t world = me.create();
  std::vector<char> input(std::size_t(8) << 20), output(std::size_t(32) << 20);
  for (std::string order; !(order = me.hear()).empty();) {
    std::istringstream in(order);
    std::string then;
    in >> then;
    const Called call = Called::read(in);
    anello_comm_t comm = ANELLO_COMM_NULL;
    me.check(anello_comm_dup(world, &comm), "dup", world);
    anello_result_t result = make(call, input, output, comm);
    me.report("call", result, comm);
    if (result != ANELLO_ERR_MISMATCH && then == "call") {
      result = anello_barrier(comm);
      me.report("call", result, comm);
    } else if (result != ANELLO_ERR_MISMATCH) {
      drive_until_failed(me, world, comm);
    }
    me.report("destroy", anello_comm_destroy(comm), comm);
    // The lanes are shared: what was left over of the failed call is not taken for this one's.
    std::vector<std::int32_t> numbers(1000, me.rank() + 1);
    me.check(anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_INT32, ANELLO_SUM, world),
             "allreduce", world);
    me.check(numbers[999] == me.size() * (me.size() + 1) / 2, "the sum on another communicator");
  }
  me.check(anello_comm_destroy(world), "destroy", world);
});

// Rank 0 gives its data to whom it may concern and is gone before the others make another call.
const Role gone_after_another_call("gone after another call", [](Rank& me) {
  const anello_comm_t world = me.create();
  std::vector<float> numbers(std::size_t(me.number("count", 3)), 1);
  if (me.rank() == 0) {
    // Where the root meets the others it learns of it, too.
    const anello_result_t result = anello_broadcast(numbers.data(), numbers.size(), ANELLO_FLOAT32, 0, world);
    if (result != ANELLO_ERR_MISMATCH) me.check(result, "broadcast", world);
  } else {
    sleep_ms(300);
    me.report("call",
              anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_FLOAT32, ANELLO_SUM, world),
              world);
  }
  anello_comm_destroy(world);
});

// Rank 0 has made so many calls when the others make another one than its fourth.
const Role far_ahead("far ahead", [](Rank& me) {
  const anello_comm_t world = me.create();
  std::array<float, 64> numbers{}, sums{};
  const std::size_t count = std::size_t(me.number("count", 2));
  const auto broadcast = [&](std::size_t many, int root) {
    return anello_broadcast(numbers.data(), many, ANELLO_FLOAT32, root, world);
  };
  const auto reduce = [&](std::size_t many) {
    return anello_reduce(numbers.data(), sums.data(), many, ANELLO_FLOAT32, ANELLO_SUM, 3, world);
  };
  for (int i = 0; i < 3; ++i) me.check(broadcast(count, 0), "broadcast", world);
  const std::string others = me.setting("others", "broadcast fewer"), then = me.setting("then", "barrier");
  anello_result_t result = ANELLO_OK;
  if (me.rank() == 0) {
    for (int i = 3; i < me.number("calls", 110) && result == ANELLO_OK; ++i) {
      result = others == "reduce fewer" ? reduce(count) : broadcast(count, 0);
    }
    me.say("ahead");
    if (result == ANELLO_OK && then == "barrier") result = anello_barrier(world);
    if (result == ANELLO_OK && then == "broadcast") {
      me.hear();  // the others have the verdict
      result = broadcast(count, 0);
    }
  } else {
    if (me.number("told", 0) != 0) me.hear();  // rank 0 is there
    sleep_ms(me.number("behind_ms", 0));
    if (others == "broadcast fewer") result = broadcast(count - 1, 0);
    if (others == "reduce fewer") result = reduce(count - 1);
    if (others == "allreduce")
      result = anello_allreduce(numbers.data(), sums.data(), count, ANELLO_FLOAT32, ANELLO_SUM, world);
    if (others == "broadcast from 1") result = broadcast(count, 1);
    if (result == ANELLO_OK) result = anello_barrier(world);
  }
  if (me.rank() != 0 || then != "destroy") me.report("call", result, world);
  me.report("destroy", anello_comm_destroy(world), world);
});

// Broadcast's root goes on, and whoever has its data; who has sent its part to a root; a scan's first rank.
bool may_end_alone(const Called& call) {
  return call.kind == "broadcast" || call.kind == "reduce" || call.kind == "gather" || call.kind == "scan";
}

struct Case {
  Called most{};
  Called odd{};
};

// odd_ranks: those that make the other call.
void judge(Ranks& job, const Case& c, const std::string& then, int odd_rank) {
  INFO(c.odd.text() << " on rank " << odd_rank << " and " << c.most.text() << " on the others, then " << then);
  for (int rank = 0; rank < job.count(); ++rank) {
    job.tell(rank, then + " " + (rank == odd_rank ? c.odd : c.most).text());
  }
  for (int rank = 0; rank < job.count(); ++rank) {
    const Called& own = rank == odd_rank ? c.odd : c.most;
    INFO("rank " << rank);
    Line line = job.next(rank);
    if (own.null) {
      CHECK(line.begins("call ANELLO_ERR_ARGUMENT"));
      if (then == "call") line = job.next(rank);
    } else if (line.begins("call ANELLO_OK")) {
      CHECK(may_end_alone(own));
      if (then == "call") line = job.next(rank);
    }
    if (!line.begins("call ANELLO_OK") && !line.begins("call ANELLO_ERR_ARGUMENT")) {
      INFO(line.text);
      CHECK(line.begins("call ANELLO_ERR_MISMATCH"));
      CHECK(line.has(c.most.described()));
      CHECK(line.has(c.odd.described()));
      CHECK(line.has("rank " + std::to_string(odd_rank) + " called"));
    }
    const Line destroyed = job.next(rank);
    INFO(destroyed.text);
    CHECK(destroyed.begins("destroy ANELLO_ERR_MISMATCH"));
    CHECK(destroyed.has(c.odd.described()));
  }
}

void judge_all(const std::string& transport) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    INFO(ranks << " ranks over " << transport);
    Ranks job(ranks, "disagreeing", transport);
    int turn = 0;
    for (const std::size_t count : {std::size_t(10), std::size_t(500'000)}) {
      const Called sum{"allreduce", count}, gather{"allgather", count}, barrier{"barrier"},
          scatter{"reduce_scatter_block", count}, from_0{"broadcast", count}, to_0{"reduce", count},
          parts_to_0{"gather", count}, swap{"alltoall", count}, scan{"scan", count};
      Called fewer = sum, ints = sum, max = sum, from_last = from_0, to_last = to_0, null = sum, null_from_0 = from_0;
      fewer.count = count - 1;
      ints.dtype = ANELLO_INT32;
      max.op = ANELLO_MAX;
      from_last.root = to_last.root = ranks - 1;
      null.null = null_from_0.null = true;
      for (const Case& c : {Case{sum, gather}, Case{barrier, sum}, Case{sum, fewer}, Case{sum, ints}, Case{sum, max},
                            Case{scatter, sum}, Case{sum, null}, Case{from_0, null_from_0}, Case{to_0, to_last},
                            Case{to_0, parts_to_0}, Case{swap, gather}, Case{scan, sum}}) {
        judge(job, c, turn % 2 == 0 ? "call" : "destroy", turn % ranks);
        ++turn;
      }
      // Two roots: each of them sends and has nothing to wait for.
      judge(job, {from_0, from_last}, "call", ranks - 1);
      if (ranks > 2) judge(job, {from_0, from_last}, "destroy", ranks - 1);
    }
    Called no_result{"comm_dup"};
    no_result.null = true;
    const Called dup{"comm_dup"}, barrier{"barrier"};
    judge(job, {dup, no_result}, "call", 0);
    judge(job, {dup, barrier}, "call", 1);
    for (int rank = 0; rank < ranks; ++rank) job.tell(rank, "");
    job.finish();
  }
}

}  // namespace

TEST_CASE("ranks that disagree all hear of both calls, over shared memory") { judge_all("shm"); }

TEST_CASE("ranks that disagree all hear of both calls, over TCP") { judge_all("tcp"); }

TEST_CASE("a root that is far ahead hears of the call in which the others disagree") {
  // On fewer processors it is as far ahead as it gets; else the board has it wait earlier.
  Ranks job(4, "far ahead", "shm", {{"behind_ms", "300"}});
  job.expect(0, "ahead", 10'000);
  for (int rank = 0; rank < 4; ++rank) {
    const Line line = job.next(rank, 10'000);  // the deadline is later
    INFO("rank " << rank << ": " << line.text);
    CHECK(line.begins("call ANELLO_ERR_MISMATCH"));
    CHECK(line.has("rank 0 called broadcast(count 2, float32, root 0)"));
    CHECK(line.has("broadcast(count 1, float32, root 0)"));
  }
  job.expect_all("destroy ANELLO_ERR_MISMATCH");
  job.finish();
}

TEST_CASE("a rank that no longer knows the call in which the others disagree with it hears of it all the same") {
  for (const char* transport : {"tcp", "shm"}) {
    for (const std::string others : {"broadcast fewer", "reduce fewer", "allreduce", "broadcast from 1"}) {
      for (const char* then : {"barrier", "broadcast", "destroy"}) {
        INFO(others << " over " << transport << ", then " << then);
        const bool leaves = std::string(then) == "destroy";
        // In frames, which nothing but their sender's credit bounds.
        Ranks job(4, "far ahead", transport,
                  {{"ANELLO_ALGORITHM", "broadcast:tree,reduce:tree"},
                   {"calls", "600"},
                   {"count", "16"},
                   {"told", "1"},
                   {"others", others},
                   {"then", then}});
        job.expect(0, "ahead", 10'000);
        for (int rank = 1; rank < 4; ++rank) job.tell(rank, "");
        for (const int rank : {1, 2, 3, 0}) {
          if (rank == 0 && leaves) {
            job.next(0);  // there was nothing to hear yet
            continue;
          }
          if (rank == 0 && std::string(then) == "broadcast") job.tell(0, "");
          for (const std::string what : {"call", "destroy"}) {
            const Line line = job.next(rank, 10'000);  // the deadline is later
            INFO("rank " << rank << ": " << line.text);
            CHECK((line.begins(what + " ANELLO_ERR_MISMATCH") ||
                   (leaves && line.begins(what + " ANELLO_ERR_PEER_LOST"))));
            CHECK(line.has("rank 0"));
            CHECK((leaves || (line.has(" or one before it: ") && line.has(", by now in operation"))));
          }
        }
        job.finish();
      }
    }
  }
}

TEST_CASE("a rank that made another call and left is named soon") {
  for (const char* transport : {"shm", "tcp"}) {
    for (const char* count : {"3", "2000"}) {
      for (const int ranks : {2, 3}) {
        INFO(ranks << " ranks over " << transport << ", " << count << " elements");
        Ranks job(ranks, "gone after another call", transport, {{"count", count}});
        for (int rank = 1; rank < ranks; ++rank) {
          const Line line = job.next(rank, 10'000);  // the deadline is later
          INFO(line.text);
          CHECK((line.begins("call ANELLO_ERR_MISMATCH") || line.begins("call ANELLO_ERR_PEER_LOST")));
          CHECK(line.has("rank 0"));
        }
        job.finish();
      }
    }
  }
}
