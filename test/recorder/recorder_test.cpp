// What a rank shows of its operations, and what another thread reads of it meanwhile.
#include "base/error.h"
#include "recorder/dump.h"
#include "recorder/recorder.h"
#include "support/catch.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

using namespace anello;
using namespace anello::recorder;
using Catch::Matchers::Contains;

namespace {

std::int64_t at_42() { return 42'000'000; }

CallRecord call(std::uint32_t sequence, std::int32_t kind, std::uint64_t count) {
  CallRecord record;
  record.sequence = sequence;
  record.kind = kind;
  record.dtype = ANELLO_FLOAT32;
  record.count = count;
  return record;
}

Identity identity() {
  Identity who;
  who.job = 0x1234;
  who.communicator = 1;
  who.rank = who.world_rank = 2;
  who.size = who.world_size = 4;
  std::strcpy(who.host, "alpha");
  return who;
}

}  // namespace

TEST_CASE("calls are counted by kind, with the bytes of the whole buffer") {
  const auto ledger = std::make_unique<Ledger>();
  std::uint32_t sequence = 0;
  const auto make = [&](std::int32_t kind, std::uint64_t count, int times) {
    CallRecord record = call(sequence, kind, count);
    for (int i = 0; i < times; ++i) {
      record.sequence = sequence++;
      ledger->note(record);
    }
  };
  make(ANELLO_ALLREDUCE, 100, 3);
  make(ANELLO_ALLREDUCE, 200, 2);
  make(ANELLO_ALLGATHER, 10, 1);
  make(ANELLO_ALLREDUCE, 100, 1000);
  make(kDupCall, 0, 2);
  const Ledger::Totals totals = ledger->totals(4);
  CHECK(totals[ANELLO_ALLREDUCE].calls == 1005);
  CHECK(totals[ANELLO_ALLREDUCE].bytes == 4 * (3 * 100 + 2 * 200 + 1000 * 100));
  CHECK(totals[ANELLO_ALLGATHER].bytes == 4 * 10 * 4);
  CHECK(totals[Ledger::kOther].calls == 2);
  CHECK(totals[Ledger::kOther].bytes == 0);
}

TEST_CASE("a call is in flight until it has ended, by itself or with all before it") {
  const auto ledger = std::make_unique<Ledger>();
  // Sequences wrap around.
  const std::uint32_t first = ~std::uint32_t{0};
  for (std::uint32_t i = 0; i < 4; ++i) {
    CallRecord record = call(first + i, ANELLO_ALLREDUCE, 1);
    ledger->note(record);
  }
  const auto ended = [&](std::uint64_t number) { return ledger->entry(number)->ended; };
  CHECK_FALSE(ended(0));
  ledger->see(first + 1, 41'000'000);
  ledger->end(first + 1, ANELLO_ERR_TIMEOUT, at_42);
  CHECK(ended(1));
  CHECK(ledger->entry(1)->ending.seen_ns == 41'000'000);
  CHECK(ledger->entry(1)->ending.ended_ns == 42'000'000);
  CHECK(ledger->entry(1)->ending.result == ANELLO_ERR_TIMEOUT);
  CHECK_FALSE(ended(0));
  CHECK_FALSE(ended(3));
  ledger->all_ended();
  CHECK((ended(0) && ended(3)));
  // One that has never been noted is nobody's.
  ledger->end(first + 9, ANELLO_OK, at_42);
  CallRecord record = call(first + 4, ANELLO_ALLREDUCE, 1);
  ledger->note(record);
  CHECK_FALSE(ended(4));
}

TEST_CASE("the slot of an operation that stayed tells nothing about the one that follows in it") {
  const auto ledger = std::make_unique<Ledger>();
  std::uint32_t sequence = 0;
  const auto note = [&] {
    CallRecord record = call(sequence++, ANELLO_ALLREDUCE, 1);
    ledger->note(record);
  };
  note();
  ledger->end(0, ANELLO_ERR_ABORTED, at_42);
  while (sequence < 257) note();
  CHECK_FALSE(ledger->entry(256)->ended);
  CHECK_FALSE(ledger->entry(0));
}

TEST_CASE("a reader never sees half of a call") {
  const auto ledger = std::make_unique<Ledger>();
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::uint32_t i = 0; !over.load(std::memory_order_relaxed); ++i) {
      CallRecord record = call(i, ANELLO_ALLREDUCE, i);
      record.digest = std::uint64_t{i} << 32 | i;
      record.root = std::int32_t(i);
      ledger->note(record);
      ledger->all_ended();
    }
  });
  int read = 0, torn = 0;
  while (read < 100'000) {
    const std::uint64_t noted = ledger->noted();
    if (noted < 100) continue;
    const auto entry = ledger->entry(noted - 1 - std::uint64_t(read) % 64);
    ++read;
    if (!entry) continue;
    const CallRecord& its = entry->call;
    torn +=
        its.count != its.sequence || its.digest != (its.count << 32 | its.count) || its.root != std::int32_t(its.count);
  }
  over = true;
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("a reader never sees half of a published value") {
  struct Pair {
    std::uint64_t one[20];
  };
  const auto published = std::make_unique<Published<Pair>>();
  CHECK_FALSE(published->read());
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::uint64_t i = 0; !over.load(std::memory_order_relaxed); ++i) {
      Pair pair;
      for (std::uint64_t& each : pair.one) each = i;
      published->publish(pair);
    }
  });
  int torn = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto pair = published->read();
    if (pair) torn += pair->one[0] != pair->one[19];
  }
  over = true;
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("messages that end at once, later, or not") {
  const auto log = std::make_unique<MessageLog>();
  log->note({1, 7, 100});
  const std::uint64_t later = log->begin({ANELLO_ANY_SOURCE, 7, 1000});
  CHECK_FALSE(log->read(later)->ending->ended);
  CHECK(log->bytes() == 100);
  log->see(later, 41'000'000);
  log->end(later, {3, 7, 40}, ANELLO_OK, at_42);
  CHECK(log->bytes() == 140);
  CHECK(log->read(later)->message.peer == 3);
  CHECK(log->read(later)->ending->ended_ns == 42'000'000);
  CHECK_FALSE(log->read(0)->ending);
  for (int i = 0; i < 200; ++i) log->note({1, 7, 1});
  CHECK_FALSE(log->read(later));
  CHECK(log->noted() == 202);
}

TEST_CASE("a snapshot comes back from its file as it was") {
  const auto section = std::make_unique<Section>(identity());
  for (std::uint32_t i = 0; i < 100; ++i) {
    CallRecord record = call(i, ANELLO_BROADCAST, i);
    record.digest = ~std::uint64_t{i};
    record.root = 3;
    if (i == 99) record.set_label(Label("the \xe2\x82\xac last"));
    section->ledger.note(record);
    if (i == 98) section->ledger.all_ended();
  }
  section->sent.note({1, 7, 100});
  section->received.begin({-1, -1, 100});
  Waits waits;
  waits.sequence = 99;
  waits.peers = 1;
  waits.peer[0] = {3, 3, Waits::What::room, Waits::Life::stopped};
  section->waits.publish(waits);
  Failure failure;
  failure.code = ANELLO_ERR_TIMEOUT;
  failure.at_ns = 1;
  std::strcpy(failure.text, "it \"took\"\ntoo long");
  section->failure.publish(failure);

  const Snapshot taken = snapshot_of(*section);
  CHECK(taken.collectives.size() == Snapshot::kOperations);
  CHECK(taken.in_flight()->call.sequence == 99);
  CHECK(taken.totals.at("broadcast").calls == 100);
  const Snapshot back = from_json(as_json(taken));
  CHECK(as_json(back) == as_json(taken));
  CHECK(back.find(99)->call.describe() == taken.find(99)->call.describe());
  CHECK(digest_of(back.find(50)->call) == digest_of(taken.find(50)->call));
  CHECK(back.waits->peer[0].life == Waits::Life::stopped);
  CHECK(back.error->text == failure.text);
  CHECK(dump_name(back) == "anello-0000000000001234-rank2-comm1.json");
  CHECK_THROWS_WITH(from_json(as_json(taken).substr(0, 500)), Contains("cut off"));
}

TEST_CASE("what a rank waited for in an operation that has ended is not shown") {
  const auto section = std::make_unique<Section>(identity());
  CallRecord record = call(0, ANELLO_ALLREDUCE, 1);
  section->ledger.note(record);
  section->waits.publish({});
  CHECK(snapshot_of(*section).waits);
  section->ledger.all_ended();
  CHECK_FALSE(snapshot_of(*section).waits);
}

TEST_CASE("a place is used again, and shows nothing of the communicator before") {
  const Section* first = nullptr;
  {
    Record record{identity()};
    CallRecord made = call(0, ANELLO_ALLREDUCE, 1);
    record->ledger.note(made);
    first = &*record;
  }
  Record record{identity()};
  CHECK(&*record == first);
  CHECK(record->ledger.noted() == 0);
  CHECK(snapshot_of(*record).collectives.empty());
}
