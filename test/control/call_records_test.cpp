// What the answers of several ranks come to.
#include "control/call_records.h"

#include <anello/anello.h>
#include "support/catch.h"

using namespace anello;
using namespace anello::control;
using Catch::Matchers::Contains;

namespace {

CallRecord call(std::uint32_t sequence, std::int32_t kind, std::uint64_t count, std::int32_t root = 0) {
  CallRecord record;
  record.sequence = sequence;
  record.kind = kind;
  record.count = count;
  record.root = root;
  return record;
}

// Notes calls with their chained digests, as the executor does.
struct Rank {
  // On the heap: GCC 12's AddressSanitizer puts stack variables at 32 bytes at most (its bug 110027).
  std::unique_ptr<Ledger> own = std::make_unique<Ledger>();
  Ledger& ledger = *own;
  std::uint64_t chain = 0;
  void did(CallRecord record) {
    record.digest = chain = chain * 31 + digest_of(record);
    ledger.note(record);
  }
};

std::map<int, CallHistory> histories(const std::vector<Rank*>& ranks, std::uint32_t sequence) {
  std::map<int, CallHistory> all;
  for (std::size_t i = 0; i < ranks.size(); ++i) all[static_cast<int>(i)] = history_of(ranks[i]->ledger, sequence);
  return all;
}

}  // namespace

TEST_CASE("equal calls, and ranks that have not come to it yet, are no disagreement") {
  Rank a, b, late;
  for (std::uint32_t i = 10; i < 20; ++i) {
    a.did(call(i, ANELLO_ALLREDUCE, i));
    b.did(call(i, ANELLO_ALLREDUCE, i));
    if (i < 19) late.did(call(i, ANELLO_ALLREDUCE, i));
  }
  CHECK(!judge(histories({&a, &b, &late}, 19), 19));
  CHECK(!judge({}, 19));
}

TEST_CASE("a difference names both calls, who made them, and the odd one out") {
  Rank a, b, c;
  a.did(call(17, ANELLO_ALLREDUCE, 1000));
  b.did(call(17, ANELLO_ALLREDUCE, 1000));
  c.did(call(17, ANELLO_BROADCAST, 10, 1));
  const auto error = judge(histories({&a, &b, &c}, 17), 17);
  REQUIRE(error);
  CHECK(error->code() == ANELLO_ERR_MISMATCH);
  CHECK(error->text() ==
        "ranks disagree on operation 17: ranks 0, 1 called allreduce(count 1000, float32, sum), rank 2 "
        "called broadcast(count 10, float32, root 1)");
  CHECK(error->peer() == 2);
  const auto two = judge(histories({&a, &c}, 17), 17);
  REQUIRE(two);
  CHECK(two->peer() == -1);
}

TEST_CASE("the first operation that differs is named, also over the wrap of the numbers") {
  Rank a, b;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::uint32_t sequence = 0xfffffff0u + i;
    a.did(call(sequence, ANELLO_ALLREDUCE, 5));
    b.did(call(sequence, ANELLO_ALLREDUCE, sequence == 3 ? 6 : 5));
  }
  const std::uint32_t last = 0xfffffff0u + 39;
  const auto error = judge(histories({&a, &b}, last), last);
  REQUIRE(error);
  CHECK_THAT(error->text(), Contains("operation 3:") && Contains("count 5") && Contains("count 6"));
}

TEST_CASE("a difference that is forgotten is found by the chained digest") {
  Rank a, b;
  a.did(call(1, ANELLO_ALLREDUCE, 5));
  b.did(call(1, ANELLO_ALLREDUCE, 6));
  for (std::uint32_t i = 2; i < 100; ++i) {
    a.did(call(i, ANELLO_BARRIER, 0));
    b.did(call(i, ANELLO_BARRIER, 0));
  }
  const auto error = judge(histories({&a, &b}, 99), 99);
  REQUIRE(error);
  CHECK(error->code() == ANELLO_ERR_MISMATCH);
  CHECK_THAT(error->text(), Contains("before 36"));
}

TEST_CASE("a rank that is known to have made another call, and has forgotten it, is named") {
  Rank a, b, c, ahead, also_ahead;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (Rank* rank : {&ahead, &also_ahead}) rank->did(call(i, ANELLO_BROADCAST, i, 3));
    if (i > 3) continue;
    for (Rank* rank : {&a, &b}) rank->did(call(i, ANELLO_BROADCAST, i == 3 ? 7 : i, 3));
    if (i < 3) c.did(call(i, ANELLO_BROADCAST, i, 3));
  }
  const auto one = histories({&a, &ahead, &b, &c}, 3);
  CHECK(!judge(one, 3));
  CHECK(!judge(one, 3, Differing{0, 2}));  // both still know theirs, which are the same
  CHECK(!judge(one, 3, Differing{1, 3}));  // rank 3 has not made its call
  auto unheard = one;
  unheard.erase(1);
  CHECK(!judge(unheard, 3, Differing{0, 1}));  // it may have died
  for (const Differing known : {Differing{0, 1}, Differing{1, 0}}) {
    const auto error = judge(one, 3, known);
    REQUIRE(error);
    CHECK(error->code() == ANELLO_ERR_MISMATCH);
    CHECK(error->peer() == 1);
    CHECK(error->text() ==
          "ranks disagree on operation 3 or one before it: ranks 0, 2 called broadcast(count 7, float32, root 3), "
          "rank 1, by now in operation 999, no longer knows its call");
  }
  const auto most = judge(histories({&a, &ahead, &also_ahead}, 3), 3, Differing{0, 1});
  REQUIRE(most);
  CHECK(most->peer() == -1);  // they may disagree, too
  CHECK_THAT(most->text(),
             Contains("rank 0 called broadcast(count 7, float32, root 3), ranks 1, 2, by now in operations up to "
                      "999, no longer know theirs"));
  const auto nobody = judge(histories({&ahead, &also_ahead}, 3), 3, Differing{0, 1});
  REQUIRE(nobody);
  CHECK_THAT(nobody->text(), Contains("operation 3 or one before it: ranks 0, 1, by now"));
  // Where the calls themselves can be compared they are.
  b.did(call(4, ANELLO_BARRIER, 0));
  a.did(call(4, ANELLO_REDUCE, 1));
  const auto found = judge(histories({&a, &ahead, &b}, 4), 4, Differing{0, 1});
  REQUIRE(found);
  CHECK_THAT(found->text(), Contains("on operation 4: rank 0 called reduce") && Contains("rank 2 called barrier()"));
  // It left after that call.
  CallHistory gone = history_of(ahead.ledger, 999);
  gone.destroyed = true;
  const auto left = judge({{0, history_of(a.ledger, 3)}, {1, cut_after(gone, 3)}}, 3, Differing{0, 1});
  REQUIRE(left);
  CHECK(left->code() == ANELLO_ERR_MISMATCH);
}

TEST_CASE("who destroyed the communicator too early has left; later is no failure") {
  Rank a, b;
  a.did(call(7, ANELLO_BARRIER, 0));
  b.did(call(7, ANELLO_BARRIER, 0));
  CallHistory gone = history_of(b.ledger, 7);
  gone.destroyed = true;
  CHECK(!judge({{0, history_of(a.ledger, 7)}, {1, gone}}, 7));
  a.did(call(8, ANELLO_BARRIER, 0));
  const auto error = judge({{0, history_of(a.ledger, 8)}, {1, gone}}, 8);
  REQUIRE(error);
  CHECK(error->code() == ANELLO_ERR_PEER_LOST);
  CHECK(error->peer() == 1);
  CHECK_THAT(error->text(), Contains("rank 1 left") && Contains("after operation 7"));
}

TEST_CASE("a history travels as it is, and is cut where asked") {
  Rank a;
  for (std::uint32_t i = 0; i < 100; ++i) a.did(call(i, ANELLO_BROADCAST, i, 3));
  const CallHistory history = history_of(a.ledger, 90);
  CHECK(history.records.front().sequence == 27);
  CHECK(history.records.back().sequence == 90);
  CHECK(history.newest == 99u);
  Writer writer;
  put_history(writer, history);
  const Frame frame = writer.frame(1);
  CHECK(frame.body.size() < kMaxBody);
  Reader reader(frame.body);
  const CallHistory back = take_history(reader);
  reader.end();
  REQUIRE(back.records.size() == history.records.size());
  CHECK(back.records[5].describe() == history.records[5].describe());
  CHECK(back.records[5].digest == history.records[5].digest);
  CHECK(cut_after(back, 31).records.size() == 5);
}

TEST_CASE("the algorithm that a call asks for is part of the call, its label is not") {
  Rank a, b;
  CallRecord ring = call(3, ANELLO_ALLREDUCE, 7), tree = ring;
  ring.algorithm = recorder::named_algorithm("ring");
  ring.set_label(Label("a\nlabel of \"mine\""));
  tree.algorithm = recorder::named_algorithm("dissemination");
  CHECK(digest_of(ring) != digest_of(tree));
  CHECK(digest_of(ring) != digest_of(call(3, ANELLO_ALLREDUCE, 7)));
  a.did(ring);
  b.did(tree);
  Writer writer;
  put_history(writer, history_of(a.ledger, 3));
  const Frame frame = writer.frame(0);
  Reader reader(frame.body);
  std::map<int, CallHistory> both{{0, take_history(reader)}, {1, history_of(b.ledger, 3)}};
  reader.end();
  const auto verdict = judge(both, 3);
  REQUIRE(verdict);
  CHECK_THAT(verdict->text(), Contains("rank 0 called allreduce(count 7, float32, sum, by ring) \"a?label of ?mine?\", "
                                       "rank 1 called allreduce(count 7, float32, sum, by dissemin)"));
  ring.set_label(Label());
  a.did(ring);  // in a slot of its own, but the next one of that slot must not keep the label
  for (std::uint32_t i = 4; i < 4 + 2 * Ledger::kKept; ++i) a.did(call(i, ANELLO_BARRIER, 0));
  for (const CallRecord& record : history_of(a.ledger, 3 + 2 * Ledger::kKept).records) CHECK(record.label().empty());
}
