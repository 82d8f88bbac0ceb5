// Messages of steps that are got: what ends, waits, lacks memory, or was never asked for.
#include "base/text.h"
#include "executor/held_engine.h"
#include "executor/lent_buffer.h"
#include "executor/rank_thread.h"
#include "executor/scripted_lane.h"
#include "executor/wild_memory.h"
#include "transports/faulty_transport.h"
#include "transports/shm/transport.h"
#include "transports/with_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

namespace {

MakeTransport over(transport::RemoteMemory& memory, const testing::FaultPlan& lanes = {}) {
  return [&memory, lanes](const memory::Arena& arena, int) {
    return testing::make_faulty(std::make_unique<TransportWithMemory>(transport::make_shm(arena), memory),
                                [lanes](int) { return lanes; });
  };
}

enum class Getting { nothing, pieces, waits_for_slot };

Getting state_of(const Operation& operation) {
  for (const RunLane& lane : operation.run.lanes) {
    if (lane.get != nullptr) return lane.get->under_way == 0 ? Getting::waits_for_slot : Getting::pieces;
  }
  return Getting::nothing;
}

}  // namespace

TEST_CASE("the places of calls that end with an error serve those that wait for one") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::mutex mutex;
  std::string wrong;
  std::atomic<int> there{0};
  constexpr std::size_t kGroups = 9;  // eight take all places
  on_ranks(2, [&](int rank) {
    WildMemory memory(keys, 1);
    memory.held = rank == 1;
    RankThread me(jobs, rank, transport::bit_of("shm"), over(memory));
    std::vector<std::unique_ptr<Group>> groups;
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<Operation*> operations;
    for (std::size_t i = 0; i < kGroups; ++i) {
      groups.push_back(me.add_group(2 + i, 2, -1, 0));
      buffers.push_back(std::make_unique<Buffer>(true));
      buffers.back()->fill(rank);
    }
    ++there;
    while (there < 2) std::this_thread::yield();
    for (std::size_t i = 0; i < kGroups; ++i)
      operations.push_back(me.allreduce(buffers[i]->data(), kCount, "ring", kChunk, groups[i].get(), 10'000));
    std::size_t waiting = kGroups;
    if (rank == 1) {
      for (std::size_t getting = 0; getting + 1 < kGroups || waiting == kGroups;) {
        me.context().test(*operations.back());
        getting = 0;
        for (std::size_t i = 0; i < kGroups; ++i) {
          getting += state_of(*operations[i]) == Getting::pieces ? 1 : 0;
          if (state_of(*operations[i]) == Getting::waits_for_slot) waiting = i;
        }
      }
      for (std::size_t i = 0; i < kGroups; ++i) {
        if (i != waiting) me.context().abort(*groups[i], Error(ANELLO_ERR_ABORTED, "given up"));
      }
      memory.held = false;
    }
    for (std::size_t i = 0; i < kGroups; ++i) {
      const Error error = me.finish(operations[i]);
      const std::lock_guard held(mutex);
      if (i == waiting && error) wrong += text("the waiting call ends with ", error.text(), "; ");
    }
    for (auto& group : groups) me.context().remove_group(*group);
  });
  CHECK(wrong == "");
}

TEST_CASE("a rank whose messages a peer does not get names that peer when its deadline passes") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::atomic<int> there{0};
  Error error;
  on_ranks(2, [&](int rank) {
    WildMemory memory(keys, 1);
    memory.held = rank == 0;
    RankThread me(jobs, rank, transport::bit_of("shm"), over(memory));
    const auto apart = me.add_group(2, 2, -1, 0);
    ++there;
    while (there < 2) std::this_thread::yield();
    Buffer buffer(true);
    buffer.fill(rank);
    const Error mine =
        me.finish(me.allreduce(buffer.data(), kCount, "tree", kCount, apart.get(), rank == 1 ? 500 : 20'000));
    if (rank == 1) error = mine;
    me.context().remove_group(*apart);
  });
  CHECK_THAT(error.text(), Catch::Contains("rank 0"));
}

TEST_CASE("between two pieces of a long message, other work has its turn") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::atomic<int> there{0};
  std::size_t most = 0;
  on_ranks(2, [&](int rank) {
    WildMemory memory(keys, 1);
    RankThread me(jobs, rank, transport::bit_of("shm"), over(memory));
    const auto apart = me.add_group(2, 2, -1, 0);
    Buffer buffer(true);
    buffer.fill(rank);
    ++there;
    while (there < 2) std::this_thread::yield();
    Operation* const operation = me.allreduce(buffer.data(), kCount, "tree", kCount, apart.get());
    for (std::size_t before = 0; !me.context().test(*operation); before = memory.got_bytes) {
      if (rank == 0) most = std::max(most, memory.got_bytes - before);
    }
    me.finish(operation);
    me.context().remove_group(*apart);
  });
  CHECK(most > 0);
  CHECK(most < 2 * 1024 * 1024);
}

TEST_CASE("where there is no memory to lend a message, it goes in frames, whoever's turn it is") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::mutex mutex;
  std::string wrong;
  std::atomic<int> there{0};
  on_ranks(2, [&](int rank) {
    WildMemory memory(keys, 1);
    testing::FaultPlan slow;
    if (rank == 1) slow.delay_polls = 100;
    RankThread me(jobs, rank, transport::bit_of("shm"), over(memory, slow));
    const auto first = me.add_group(2, 2, -1, 0), second = me.add_group(3, 2, -1, 0);
    ++there;
    while (there < 2) std::this_thread::yield();
    Buffer plain(false), region(true);
    plain.fill(rank);
    region.fill(rank);
    Operation* const in_frames = me.allreduce(plain.data(), 10'000, "tree", 10'000, first.get());
    Operation* const lent = me.allreduce(region.data(), 300'000, "tree", 300'000, second.get());
    if (rank == 1) {
      memory.lacks_memory = true;
      const std::byte byte{1};
      SmallMessage small;
      small.payload = &byte;
      small.bytes = 1;
      small.tag = 5;
      small.dtype = short_dtype(ANELLO_BYTE);
      try {
        // Another communicator's message comes to send what the second call has to send.
        for (int i = 0; i < 300 && memory.refused == 0; ++i) {
          const auto lock = me.context().lock();
          if (me.context().messages().send_now(me.group(), 0, small, false) != Messages::Sent::not_begun) break;
        }
      } catch (const std::bad_alloc&) {
        const std::lock_guard held(mutex);
        wrong += "the small message fails for it; ";
      }
    }
    for (Operation* const each : {in_frames, lent}) {
      const Error error = me.finish(each);
      const std::lock_guard held(mutex);
      if (error) wrong += text("rank ", rank, ": ", error.text(), "; ");
    }
    const std::lock_guard held(mutex);
    if (rank == 1 && memory.refused == 0) wrong += "nothing was to be lent; ";
    me.context().remove_group(*second);
    me.context().remove_group(*first);
  });
  CHECK(wrong == "");
}

TEST_CASE("a message whose region's pages are exchanged while it is got is sent") {
  LocalJobs jobs(2, transport::bit_of("shm"));
  LentKeys keys;
  std::atomic<int> there{0};
  std::atomic<std::size_t> wrong{0};
  std::atomic<std::uint64_t> got{0};
  on_ranks(2, [&](int rank) {
    WildMemory memory(keys, 1);
    memory.held = rank == 1;
    memory.stores_aside = true;
    RankThread me(jobs, rank, transport::bit_of("shm"), over(memory));
    const auto apart = me.add_group(2, 2, -1, 0);
    Buffer buffer(true);
    buffer.fill(rank);
    ++there;
    while (there < 2) std::this_thread::yield();
    // Rank 0's sum goes straight to its place on rank 1.
    Operation* const operation = me.allreduce(buffer.data(), kCount, "tree", kCount, apart.get());
    if (rank == 1) {
      while (state_of(*operation) == Getting::nothing) me.context().test(*operation);
      if (!memory::move_region(buffer.data())) ++wrong;
      memory.held = false;
    }
    if (me.finish(operation)) ++wrong;
    wrong += buffer.wrong_sums(2, kCount);
    if (rank == 1) got = apart->taken.rdma_steps;
    me.context().remove_group(*apart);
  });
  CHECK(wrong == 0);
  CHECK(got == 0);
}

namespace {

// Rank 0 of two in an all-reduce, to which rank 1 sends what the script says.
Error end_of(FrameKind kind, std::size_t bytes, bool is_far, Answer answer = Answer::done) {
  LocalJobs jobs(2, transport::bit_of("shm"));
  const auto script = std::make_shared<Script>();
  LentKeys keys;
  RankThread me(jobs, 0, transport::bit_of("shm"), [&](const memory::Arena&, int) {
    return std::make_unique<ScriptedTransport>(script, is_far ? std::make_unique<LentMemory>(keys, 0) : nullptr);
  });
  const auto apart = me.add_group(2, 2, -1, 0);
  std::vector<float> data(2 * 1000, 1.0f);
  Operation* const operation = me.allreduce(data.data(), data.size(), "ring", kChunk, apart.get(), 300);
  ScriptedFrame frame;
  frame.header = telling(1000 * sizeof(float));
  if (kind == FrameKind::step_cts) frame.header = {};
  frame.header.kind = static_cast<std::uint16_t>(kind);
  frame.header.communicator = apart->id;
  frame.header.sequence = operation->sequence;
  frame.header.digest = operation->digest;
  frame.header.bytes = std::uint32_t(bytes);
  if (kind == FrameKind::step_cts) frame.header.flags = static_cast<std::uint16_t>(answer);
  frame.payload.resize(bytes, std::byte{1});
  script->push_back(frame);
  const Error error = me.finish(operation);
  me.context().remove_group(*apart);
  return error;
}

}  // namespace

TEST_CASE("requests and answers of steps that no honest peer sends fail the communicator") {
  CHECK_THAT(end_of(FrameKind::step_cts, 0, true).text(), Catch::Contains("request to send that it has not had"));
  CHECK_THAT(end_of(FrameKind::step_cts, 0, true, Answer::send).text(), Catch::Contains("that it has not had"));
  CHECK_THAT(end_of(FrameKind::step_rts, 8, true).text(), Catch::Contains("of another size"));
  CHECK_THAT(end_of(FrameKind::step_rts, kAddressBytes, false).text(), Catch::Contains("shares no memory"));
  // This one is right, but for the key: the message is to be sent, and does not come.
  CHECK(end_of(FrameKind::step_rts, kAddressBytes, true).code() == ANELLO_ERR_TIMEOUT);
}

namespace {

struct Answered {
  Answer answer;
  std::uint64_t argument;
};

// Rank 0 of two has offered the chunks of a ring, and rank 1 answers so.
anello_result_t end_of_offers(const std::vector<Answered>& answers, std::uint32_t* offered) {
  LocalJobs jobs(2, transport::bit_of("shm"));
  const auto script = std::make_shared<Script>();
  LentKeys keys;
  RankThread me(jobs, 0, transport::bit_of("shm"), [&](const memory::Arena&, int) {
    return std::make_unique<ScriptedTransport>(script, std::make_unique<WildMemory>(keys, 1));
  });
  const auto apart = me.add_group(2, 2, -1, 0);
  Buffer data(true);
  data.fill(0);
  Operation* const operation = me.allreduce(data.data(), kCount, "ring", 50'000, apart.get(), 200);
  *offered = operation->run.lanes.front().offered;
  for (const Answered& each : answers) {
    ScriptedFrame frame;
    frame.header.kind = static_cast<std::uint16_t>(FrameKind::step_cts);
    frame.header.communicator = apart->id;
    frame.header.sequence = operation->sequence;
    frame.header.digest = operation->digest;
    frame.header.flags = static_cast<std::uint16_t>(each.answer);
    frame.header.argument = each.argument;
    script->push_back(frame);
  }
  const Error error = me.finish(operation);
  me.context().remove_group(*apart);
  return error.code();
}

}  // namespace

TEST_CASE("answers to offers that cannot be true fail the communicator") {
  constexpr std::uint64_t kBytes = 50'000 * sizeof(float);
  std::uint32_t offered = 0;
  CHECK(end_of_offers({}, &offered) == ANELLO_ERR_TIMEOUT);
  CHECK(offered > 1);
  CHECK(end_of_offers({{Answer::done, 0}, {Answer::send, 8}}, &offered) == ANELLO_ERR_TIMEOUT);
  const std::vector<Answered> wrong[] = {{{Answer::send, kBytes}},
                                         {{Answer::send, 3}},
                                         {{Answer::send, ~std::uint64_t{0}}},
                                         {{Answer::send_far, 0}},
                                         {{Answer(77), 0}},
                                         {{Answer::send, 4}, {Answer::send, 4}},
                                         {{Answer::send, 4}, {Answer::done, 0}},
                                         std::vector<Answered>(100, {Answer::done, 0})};
  for (const std::vector<Answered>& each : wrong) CHECK(end_of_offers(each, &offered) == ANELLO_ERR_CORRUPT);
}

TEST_CASE("many calls at once are right while gets end in any order, fail, and are refused, and ranks abort") {
  for (unsigned seed = 1; seed <= 24; ++seed) {
    std::mt19937 choose(seed);
    const int ranks = 2 + int(choose() % 3);
    const bool aborts = seed % 4 == 0;
    WildMemory::Ways ways;
    ways.fail = std::array{0, 1, 5, 30}[choose() % 4];
    ways.not_ready = std::array{0, 0, 10}[choose() % 3];
    ways.refuse = std::array{0, 10, 50}[choose() % 3];
    ways.idle = std::array{0, 50, 90}[choose() % 3];
    const bool pairs = ranks != 3;
    const char* algorithms[] = {"ring", "pairwise", "tree", pairs ? "doubling" : "ring", pairs ? "halving" : "tree"};
    testing::FaultPlan lanes;
    if (choose() % 3 == 0) {
      lanes.short_bytes = 4096;
      lanes.delay_polls = 3;
    }
    const bool late = seed % 5 == 0;
    const std::atomic<bool> let_go{true};
    struct One {
      const char* algorithm;
      std::size_t count, chunk;
      unsigned regions;
    };
    constexpr std::size_t kGroups = 3, kCalls = 33;
    std::vector<One> calls;
    for (std::size_t i = 0; i < kCalls; ++i) {
      calls.push_back({algorithms[choose() % 5], 60'000 + choose() % 100'000, 17'000 + choose() % 60'000,
                       unsigned(choose()) | unsigned(choose() << 1)});
    }
    const std::size_t abort_after = choose() % 1000;
    LocalJobs jobs(ranks, transport::bit_of("shm"));
    LentKeys keys;
    std::mutex mutex;
    std::string wrong;
    on_ranks(ranks, [&](int rank) {
      WildMemory memory(keys, seed * 100 + unsigned(rank), ways);
      RankThread me(jobs, rank, transport::bit_of("shm"), over(memory, lanes), 0,
                    late ? std::make_unique<HeldEngine>(let_go) : make_engine());
      std::vector<std::unique_ptr<Group>> groups;
      std::vector<std::unique_ptr<Buffer>> buffers;
      std::vector<Operation*> operations;
      for (std::size_t i = 0; i < kGroups; ++i) groups.push_back(me.add_group(2 + i, ranks, -1, 0));
      for (std::size_t i = 0; i < kCalls; ++i) {
        buffers.push_back(std::make_unique<Buffer>((calls[i].regions >> rank & 1) != 0));
        buffers.back()->fill(rank, calls[i].count);
      }
      for (std::size_t i = 0; i < kCalls; ++i) {
        operations.push_back(me.allreduce(buffers[i]->data(), calls[i].count, calls[i].algorithm, calls[i].chunk,
                                          groups[i % kGroups].get()));
      }
      if (aborts && rank == int(seed / 4) % ranks) {
        for (std::size_t i = 0; i < abort_after; ++i) me.context().test(*operations.back());
        me.context().abort(*groups[0], Error(ANELLO_ERR_ABORTED, "given up"));
      }
      for (std::size_t i = 0; i < kCalls; ++i) {
        const Error error = me.finish(operations[i]);
        const std::lock_guard held(mutex);
        if (error && !(aborts && i % kGroups == 0)) wrong += text("rank ", rank, " call ", i, ": ", error.text(), "; ");
        if (!error && buffers[i]->wrong_sums(ranks, calls[i].count) > 0)
          wrong += text("rank ", rank, " call ", i, ": wrong sums; ");
      }
      const std::lock_guard held(mutex);
      if (memory.is_token_doubled) wrong += "a token was used twice; ";
      if (memory.is_pending()) wrong += "a get is left over; ";
      for (auto& group : groups) me.context().remove_group(*group);
    });
    CAPTURE(seed, ranks, ways.fail, ways.not_ready, ways.refuse, ways.idle, aborts);
    CHECK(wrong == "");
  }
}
