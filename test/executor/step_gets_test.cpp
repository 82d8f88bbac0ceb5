// Messages of steps that the receiver gets from the sender's buffer, as adapters do between hosts: right, late,
// refused, failing, and taken back.
#include "base/text.h"
#include "executor/held_engine.h"
#include "executor/lent_buffer.h"
#include "executor/lent_memory.h"
#include "executor/rank_thread.h"
#include "transports/faulty_transport.h"
#include "transports/shm/transport.h"
#include "transports/with_memory.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

namespace {

struct Case {
  int ranks = 2;
  std::string algorithm = "ring";
  std::set<int> without_region = {};
  testing::MemoryFaults faults = {};  // of every rank's gets
  testing::FaultPlan lanes = {};      // likewise, of its ends of lanes
  int delay_polls = 0;
  int operations = 2;
  int communicators = 1;
  bool late_engine = false;
  std::size_t count = kCount, chunk = kChunk;
};

struct Outcome {
  std::string wrong;
  std::uint64_t got = 0;  // messages, by all ranks
  std::size_t got_bytes = 0;
  std::size_t most_pending = 0;  // gets of one rank
};

// All ranks sum their buffers in each communicator, all at once, so many times.
Outcome allreduce(const Case& plan) {
  LocalJobs jobs(plan.ranks, transport::bit_of("shm"));
  LentKeys keys;
  const std::atomic<bool> let_go{true};
  Outcome outcome;
  std::mutex mutex;
  on_ranks(plan.ranks, [&](int rank) {
    LentMemory memory(keys, plan.delay_polls);
    RankThread me(
        jobs, rank, transport::bit_of("shm"),
        [&](const memory::Arena& arena, int) {
      return testing::make_faulty(
          std::make_unique<TransportWithMemory>(transport::make_shm(arena), memory), [&](int) { return plan.lanes; },
          plan.faults);
        },
        0, plan.late_engine ? std::make_unique<HeldEngine>(let_go) : make_engine());
    std::vector<std::unique_ptr<Group>> groups;  // without boards, as on several hosts
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (int i = 0; i < plan.communicators; ++i) {
      groups.push_back(me.add_group(std::uint64_t(2 + i), plan.ranks, -1, 0));
      buffers.push_back(std::make_unique<Buffer>(!plan.without_region.contains(rank)));
    }
    for (int turn = 0; turn < plan.operations; ++turn) {
      std::vector<Operation*> operations;
      for (int i = 0; i < plan.communicators; ++i) {
        Buffer& buffer = *buffers[std::size_t(i)];
        buffer.fill(rank, plan.count);
        operations.push_back(
            me.allreduce(buffer.data(), plan.count, plan.algorithm, plan.chunk, groups[std::size_t(i)].get()));
      }
      for (int i = 0; i < plan.communicators; ++i) {
        const Error error = me.finish(operations[std::size_t(i)]);
        const std::size_t wrong = buffers[std::size_t(i)]->wrong_sums(plan.ranks, plan.count);
        const std::lock_guard held(mutex);
        if (error) outcome.wrong += text("rank ", rank, ": ", error.text(), "; ");
        if (wrong > 0) outcome.wrong += text("rank ", rank, ", call ", turn, ": ", wrong, " wrong sums; ");
      }
    }
    const std::lock_guard held(mutex);
    for (auto& group : groups) {
      outcome.got += group->taken.rdma_steps;
      me.context().remove_group(*group);
    }
    outcome.got_bytes += memory.got_bytes;
    outcome.most_pending = std::max(outcome.most_pending, memory.most_pending);
    if (memory.is_pending()) outcome.wrong += "a get is left over; ";
  });
  return outcome;
}

}  // namespace

TEST_CASE("between hosts, the messages of steps are got from registered buffers, and nothing else") {
  for (const int ranks : {2, 3, 4}) {
    const Outcome outcome = allreduce({.ranks = ranks, .algorithm = "ring"});
    CAPTURE(ranks);
    CHECK(outcome.wrong == "");
    // Each rank receives all blocks but one, twice. No message is so short that it goes in a frame.
    CHECK(outcome.got_bytes == 2 * std::size_t(2 * (ranks - 1)) * kCount * sizeof(float));
    CHECK(outcome.got >= std::size_t(2 * 2 * ranks * (ranks - 1)));
  }
}

TEST_CASE("every algorithm of messages is right with gets, late or not") {
  for (const char* algorithm : {"ring", "pairwise", "doubling", "halving", "tree"}) {
    for (const int delay : {0, 20}) {
      const Outcome outcome = allreduce({.ranks = 4,
                                         .algorithm = algorithm,
                                         .delay_polls = delay,
                                         .operations = 1,
                                         .count = 400'000,
                                         .chunk = 150'000});
      CAPTURE(algorithm, delay);
      CHECK(outcome.wrong == "");
      CHECK(outcome.got > 0);
    }
  }
}

TEST_CASE("a rank whose buffer lies in no region sends frames, and gets what others lend") {
  CHECK(allreduce({.ranks = 3, .without_region = {0, 1, 2}}).got == 0);
  const Outcome all = allreduce({.ranks = 3}), one_less = allreduce({.ranks = 3, .without_region = {1}});
  CHECK(one_less.wrong == "");
  CHECK(one_less.got == all.got * 2 / 3);
}

TEST_CASE("the rest of a message whose get fails is sent, and so are later ones of the same lane and call") {
  for (const int from : {0, 1, 2, 3, 5, 8}) {
    for (const char* algorithm : {"ring", "pairwise"}) {
      testing::MemoryFaults faults;
      faults.fail_from = from;
      const Outcome outcome = allreduce({.ranks = 3, .algorithm = algorithm, .faults = faults});
      CAPTURE(from, algorithm);
      CHECK(outcome.wrong == "");
      CHECK(outcome.got <= std::size_t(3 * from));
      if (from >= 5) CHECK(outcome.got > 0);
    }
  }
}

TEST_CASE("a short message waits for the answers to the long ones before it") {
  for (const int from : {0, 1, 3, int(testing::MemoryFaults::kNever)}) {
    testing::MemoryFaults faults;
    faults.fail_from = from;
    // A block of 50,000 elements: a long message, and one of 40,000 bytes.
    const Outcome outcome =
        allreduce({.ranks = 2, .faults = faults, .delay_polls = 50, .count = 100'000, .chunk = 40'000});
    CAPTURE(from);
    CHECK(outcome.wrong == "");
  }
}

TEST_CASE("over lanes that move a few bytes at a time, requests and frames that follow them keep their order") {
  testing::FaultPlan slow;
  slow.short_bytes = 256;
  slow.delay_polls = 10;
  for (const int from : {1, 4, 9, int(testing::MemoryFaults::kNever)}) {
    testing::MemoryFaults faults;
    faults.fail_from = from;
    const Outcome outcome = allreduce({.ranks = 3,
                                       .algorithm = "pairwise",
                                       .faults = faults,
                                       .lanes = slow,
                                       .delay_polls = 3,
                                       .communicators = 3,
                                       .count = 204'000,
                                       .chunk = 17'000});
    CAPTURE(from);
    CHECK(outcome.wrong == "");
    CHECK(outcome.got > 0);
  }
}

TEST_CASE("more calls at once than there are places for pieces that must be combined wait for one") {
  const Outcome outcome = allreduce(
      {.ranks = 4, .algorithm = "pairwise", .delay_polls = 10, .operations = 1, .communicators = 20, .count = 100'000});
  CHECK(outcome.wrong == "");
  CHECK(outcome.most_pending >= 16);
}

TEST_CASE("with an engine that combines later, only messages that go to their places are got") {
  const Outcome outcome = allreduce({.ranks = 3, .late_engine = true}), all = allreduce({.ranks = 3});
  CHECK(outcome.wrong == "");
  CHECK(outcome.got == 0);  // a lane of a ring begins with messages that are combined, and keeps to frames
  CHECK(all.got > 0);
}

TEST_CASE("a step whose get never ends keeps to its deadline, and its sender's memory is taken back") {
  const bool aborts = GENERATE(false, true);
  CAPTURE(aborts);
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::mutex mutex;
  std::string wrong;
  std::atomic<int> there{0};
  on_ranks(2, [&](int rank) {
    LentMemory memory(keys, rank == 1 ? LentMemory::kNever : 0);
    RankThread me(jobs, rank, transport::bit_of("shm"), [&](const memory::Arena& arena, int) {
      return std::make_unique<TransportWithMemory>(transport::make_shm(arena), memory);
    });
    const auto apart = me.add_group(2, 2, -1, 0);
    ++there;
    while (there < 2) std::this_thread::yield();
    Buffer buffer(true);
    buffer.fill(rank);
    Operation* const operation =
        me.allreduce(buffer.data(), kCount, "ring", kChunk, apart.get(), rank == 1 && !aborts ? 500 : 20'000);
    if (aborts && rank == 1) {
      const auto is_getting = [&] {
        return std::any_of(operation->run.lanes.begin(), operation->run.lanes.end(),
                           [](const RunLane& lane) { return lane.get != nullptr; });
      };
      while (!me.context().test(*operation) && !is_getting()) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) me.context().test(*operation);
      me.context().abort(*apart, Error(ANELLO_ERR_ABORTED, "given up"));
    }
    const Error error = me.finish(operation);
    const std::lock_guard held(mutex);
    if (error.code() != (aborts ? ANELLO_ERR_ABORTED : ANELLO_ERR_TIMEOUT))
      wrong += text("rank ", rank, " ends with ", error.text(), "; ");
    if (memory.taken_back == 0) wrong += text("rank ", rank, " has not taken its memory back; ");
    if (memory.is_pending()) wrong += text("rank ", rank, " has left a get; ");
    me.context().remove_group(*apart);
  });
  CHECK(wrong == "");
  CHECK(keys.valid.empty());
}

TEST_CASE("a rank that is lost while others get its memory, or it theirs, is named") {
  // In the tree of two, rank 1 sends first, and last gets rank 0's result.
  const bool gets = GENERATE(false, true);
  CAPTURE(gets);
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::atomic<int> there{0};
  std::atomic<bool> over{false};
  Error error;
  on_ranks(2, [&](int rank) {
    LentMemory memory(keys, gets == (rank == 1) ? LentMemory::kNever : 0);
    RankThread me(jobs, rank, transport::bit_of("shm"), [&](const memory::Arena& arena, int) {
      return std::make_unique<TransportWithMemory>(transport::make_shm(arena), memory);
    });
    const auto apart = me.add_group(2, 2, -1, 0);
    ++there;
    while (there < 2) std::this_thread::yield();
    Buffer buffer(true);
    buffer.fill(rank);
    Operation* const operation = me.allreduce(buffer.data(), kCount, "tree", kChunk, apart.get());
    if (rank == 0) {
      error = me.finish(operation);
      over = true;
    } else {
      for (int i = 0; i < 1000; ++i) me.context().test(*operation);
      jobs.lose(1);
      while (!over) std::this_thread::yield();
      me.context().abort(*apart, Error(ANELLO_ERR_ABORTED, "over"));
      me.finish(operation);
    }
    me.context().remove_group(*apart);
  });
  CHECK(error.code() == ANELLO_ERR_PEER_LOST);
  CHECK(error.peer() == 1);
}
