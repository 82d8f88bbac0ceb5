// What ranks of the host tell each other on a board before and in a call over their memory, written by ranks that say
// what they like: where their buffers lie, that they stage, send or publish at once, what they have mapped, where the
// staging memory is. The rank that reads it makes real calls, again and again.
#include "base/log.h"
#include "executor/exchange.h"
#include "executor/rank_thread.h"
#include "executor/run.h"
#include "executor/scripted_lane.h"
#include "fuzz/input.h"
#include "schedule/shape.h"
#include "memory/process_memory.h"
#include "memory/region.h"
#include "transports/shm/remote_memory.h"

#include <array>
#include <cstdlib>
#include <cstring>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;
using schedule::Reach;

namespace {

constexpr int kSize = 3;
constexpr std::size_t kMostCount = 3000, kMostBytes = kMostCount * kSize * sizeof(float);
constexpr anello_kind_t kKinds[] = {ANELLO_ALLREDUCE, ANELLO_BROADCAST, ANELLO_ALLGATHER, ANELLO_REDUCE_SCATTER_BLOCK,
                                    ANELLO_REDUCE,    ANELLO_GATHER,    ANELLO_SCATTER,   ANELLO_ALLTOALL};

// A region of an input's and an output's size. One is this rank's, the other one's place the others announce.
struct Buffers {
  std::byte* base = memory::make_region(2 * kMostBytes);
  memory::RegionSpot spot = memory::find_region(base, 2 * kMostBytes);
};

constexpr LineKind kEntries[] = {LineKind::buffers,        LineKind::keep_away, LineKind::payload,
                                 LineKind::staged,         LineKind::sends,     LineKind::staged_for_speed,
                                 LineKind::sends_for_speed};

struct Lines {
  fuzz::Input& input;
  const LocalJobs& jobs;
  const Buffers& theirs;
  int me;

  // This rank's last one, and its place among the lines of a board whose ranks share no processor.
  std::uint32_t number() const {
    std::uint32_t last = 0;
    for (const memory::BoardLine& line : slots(me).line) last = std::max(last, line.number.load());
    return last;
  }
  static std::size_t place_of(std::uint32_t number) { return number % 64 * 2; }
  memory::BoardSlots& slots(int rank) const { return jobs.arena(me).board(0, rank); }
  const memory::BoardLine& own() const { return slots(me).line[place_of(number())]; }

  transport::RemoteAddress buffer() const {
    const auto address = reinterpret_cast<std::uintptr_t>(theirs.base);
    transport::RemoteAddress said{address, theirs.spot.region,
                                  theirs.spot.offset + std::uint64_t(input.below(2)) * kMostBytes};
    switch (input.below(10)) {
      case 0: return {};
      case 1:
      case 2:
      case 3: said.key = 0; break;
      case 4: said.key = input.take<std::uint64_t>(); break;
      case 5: said.offset = input.take<std::uint64_t>(); break;
      case 6: said.offset = 2 * kMostBytes - std::uint64_t(input.below(100)); break;
      case 7: said.address = input.take<std::uint64_t>(); break;
      default: break;
    }
    return said;
  }

  // The payload of a line that is so long, wherever it lies.
  void write_payload(memory::BoardSlots& slots, std::uint32_t number, LineKind kind, std::size_t bytes) const {
    memory::BoardLine& line = slots.line[place_of(number)];
    const bool is_as_it_should = input.below(4) != 0;
    if (bytes > sizeof line.data || !is_as_it_should) {
      const bool beside = bytes > sizeof line.data;
      const auto raw = input.take_bytes(std::min<std::size_t>(bytes, 64));
      std::byte* const into = beside ? slots.payload[number % memory::kBoardPayloads] : line.data;
      if (!raw.empty()) std::memcpy(into, raw.data(), std::min(raw.size(), beside ? raw.size() : sizeof line.data));
    } else if (kind == LineKind::buffers || kind == LineKind::keep_away) {
      if (input.below(3) == 0) return;  // as before
      const Announced said{buffer(), buffer()};
      std::memcpy(line.data, &said, sizeof said);
    } else if (kind == LineKind::find_staging) {
      const std::uint64_t offset =
          memory::Staging::find_range(jobs.arena(me), 0, kSize, schedule::usual_staging_bytes(kSize)).offset();
      std::memcpy(line.data, &offset, sizeof offset);
    } else {
      line.data[0] = std::byte(input.below(3));
    }
  }

  // A rank's line beside or in the place of what it should be: like this rank's, but for what the input says.
  void write(int rank, std::uint32_t number, std::uint64_t digest, LineKind kind, std::size_t bytes) const {
    if (input.below(16) == 0) return;
    switch (input.below(12)) {
      case 0:
      case 1: kind = kEntries[input.below(std::size(kEntries))]; break;
      case 2: kind = static_cast<LineKind>(input.take<std::uint8_t>()); break;
      case 3: bytes = input.take<std::uint16_t>(); break;
      default: break;
    }
    memory::BoardSlots& its = slots(rank);
    write_payload(its, number, kind, bytes);
    memory::BoardLine& line = its.line[place_of(number)];
    line.kind = static_cast<std::uint8_t>(kind);
    line.digest = input.below(256) == 0 ? input.take<std::uint64_t>() : digest;
    line.number.store(number);
  }

  void write_all(std::uint32_t number, std::uint64_t digest, LineKind kind, std::size_t bytes) const {
    const unsigned word = input.take<std::uint16_t>();
    const bool own_too = word % 8 == 0;
    // Now and then all lines say the same, and not what this rank does.
    if (own_too && word / 8 % 4 != 0) kind = kEntries[word / 8 % std::size(kEntries)];
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank != me || own_too) write(rank, number, digest, kind, bytes);
    }
    if (input.below(32) != 0) return;
    // Not `touching`: this rank would wait for a second, as it should.
    memory::BoardTouch& touch = slots((me + 1) % kSize).touch;
    touch.stopped.store(std::uint64_t(input.below(8)));
    touch.failed_id.store(Generations::id(1, 0));
    touch.failed.store(input.take<std::uint8_t>());
  }
};

// As a communicator chooses them.
std::shared_ptr<const Plans> plans_of(const schedule::Call& call, const schedule::Topology& topology, int rank,
                                      fuzz::Input& input) {
  auto made = std::make_shared<Plans>();
  const schedule::Choice plain = schedule::choose(call, topology);
  bool announces = schedule::profits_from_reach(call, topology);
  for (const Reach reach : {Reach::none, Reach::read, Reach::store}) {
    if (reach != Reach::none && !announces) continue;
    schedule::Call reaching = call;
    reaching.reach = reach;
    const schedule::Choice choice = schedule::choose(reaching, topology);
    if (reach != Reach::none && choice == plain) {
      made->add(reach, made->at(Reach::none));
      continue;
    }
    auto plan = Plan::of(choice.algorithm->make(reaching, topology, rank, choice.chunk));
    announces = announces || plan->has_barrier;
    if (plan->schedule.staging > 0 && made->unstaged == nullptr) {
      schedule::Topology without = topology;
      without.staging_bytes = 0;
      const schedule::Choice unstaged = schedule::choose(call, without);
      made->unstaged = Plan::of(unstaged.algorithm->make(call, without, rank, unstaged.chunk));
    }
    made->add(reach, std::move(plan));
  }
  made->by_library = input.below(2) != 0;
  const bool may_be =
      made->may_stage_at_once() || (announces && (made->may_exchange_at_once() || made->may_send_at_once()));
  made->may_be_staged = may_be && input.below(2) != 0;
  return made;
}

struct Prepared {
  recorder::CallRecord record;
  std::uint64_t digest = 0;
};

// A new call, over buffers that others can map, or cannot.
Prepared prepare(fuzz::Input& input, Operation& operation, const Buffers& mine, std::vector<std::byte> (&heap)[2]) {
  const int rank = operation.group->rank;
  operation.kind = kKinds[input.below(std::size(kKinds))];
  operation.peer = input.below(kSize);
  operation.dtype = ANELLO_FLOAT32;
  operation.op = ANELLO_SUM;
  operation.element_bytes = sizeof(float);
  operation.reducer = &kernels::reducer(ANELLO_FLOAT32, ANELLO_SUM);
  operation.count = std::size_t(1 + input.below(input.below(2) == 0 ? 100 : int(kMostCount)));
  operation.timeout_ns = 20'000'000'000;
  schedule::Call call;
  call.collective = operation_collective(operation.kind);
  call.count = operation.count;
  call.element_bytes = operation.element_bytes;
  call.root = schedule::has_root(call.collective) ? operation.peer : 0;
  schedule::Topology topology;
  topology.size = kSize;
  topology.board = true;
  topology.board_bytes = Board::capacity();
  topology.staging_bytes = input.below(2) != 0 ? schedule::usual_staging_bytes(kSize) : 0;
  topology.oversubscribed = input.below(4) == 0;
  operation.plans = plans_of(call, topology, rank, input);
  operation.plan = operation.plans->at(Reach::none);
  operation.input_inside = false;
  operation.input_bytes = schedule::input_count(call, kSize, rank) * operation.element_bytes;
  operation.output_bytes = schedule::extent(schedule::Buffer::output, call, kSize, rank) * operation.element_bytes;
  const int where = input.below(4);
  // Exactly as long, so that what goes past their ends is seen.
  heap[0] = std::vector<std::byte>(operation.input_bytes);
  heap[1] = std::vector<std::byte>(operation.output_bytes);
  operation.input = where % 2 != 0 ? mine.base : heap[0].data();
  operation.output = where / 2 != 0 ? mine.base + kMostBytes : heap[1].data();
  operation.resolved.agreement = 0;
  operation.forget_places();
  operation.mappings.clear();
  if (operation.plan->is_exchange && !operation.announces()) prepare_exchange(*operation.group, operation);
  Prepared made;
  made.record.kind = operation.kind;
  made.record.dtype = operation.dtype;
  made.record.count = operation.count;
  made.record.root = call.root;
  made.digest = recorder::digest_of(made.record);
  return made;
}

// As a blocking call does it. False: there was no error, and it is over.
bool is_under_way(Context& context, Operation& operation, Prepared& prepared) {
  // Not for short: to take that favour back takes the processors' barrier, and most of the time here.
  const auto held = context.lock();
  using Entered = Context::Entered;
  Entered done = Entered::not_begun;
  if (operation.announces()) {
    done = context.walk_now(operation, prepared.record, prepared.digest);
  } else if (operation.plan->is_exchange) {
    done = context.exchange_now(operation, prepared.record, prepared.digest);
  }
  if (done == Entered::not_begun) done = context.enter_now(operation, prepared.record, prepared.digest);
  return done != Entered::complete;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static const Buffers& mine = *new Buffers;
  static const Buffers& theirs = *new Buffers;
  log::set_sink({}, std::nullopt);
  fuzz::Input input(bytes, count);
  const int me = input.below(kSize);
  using Memory = LocalJobs::Memory;
  LocalJobs jobs(kSize, transport::bit_of("shm"), {}, input.below(4) == 0 ? Memory::anonymous : Memory::file);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == me || input.below(4) == 0) continue;
    memory::Sample& sample = jobs.arena(me).inbox(rank).sample;
    sample = memory::own_sample();
    if (input.below(4) == 0) sample.address = input.take<std::uint64_t>();
    if (input.below(4) == 0) sample.number = input.take<std::uint64_t>();
  }
  std::vector<std::byte> heap[2];
  RankThread rank(jobs, me, transport::bit_of("shm"), [&jobs, me](const memory::Arena& arena, int) {
    return std::make_unique<ScriptedTransport>(
        std::make_shared<Script>(),
        std::make_unique<transport::ProcessesMemory>(
            arena, [&jobs, me](int world, std::uint64_t key) { jobs.request_region(me, world, key); }));
  });
  Context& context = rank.context();
  Group& group = rank.group();
  const Lines lines{input, jobs, theirs, me};
  Operation* const operation = context.acquire(group);
  Prepared prepared = prepare(input, *operation, mine, heap);
  bool under_way = false;
  for (int calls = 0; calls < 24 && !input.done() && !under_way; ++calls) {
    if (calls > 0 && input.below(4) == 0) prepared = prepare(input, *operation, mine, heap);
    if (input.below(2) == 0) {
      // The others' first lines are there when this rank comes.
      const std::uint64_t digest = group.chain * 0x9e3779b97f4a7c15ull + prepared.digest;
      const bool announces = operation->announces();
      const std::size_t likely = announces ? sizeof(Announced) : operation->count * sizeof(float);
      const LineKind kind = announces ? LineKind::buffers : LineKind::exchange;
      lines.write_all(lines.number() + 1, digest, kind, likely);
    }
    under_way = is_under_way(context, *operation, prepared);
    for (int turns = 0; under_way && turns < 24 && !context.test(*operation); ++turns) {
      if (input.done() && turns > 4) break;
      const auto kind = static_cast<LineKind>(lines.own().kind);
      const bool is_payload_of_call = kind == LineKind::exchange || is_payload(kind);
      const std::size_t likely = is_payload_of_call        ? operation->count * sizeof(float)
                                 : kind == LineKind::agree ? memory::kInlineBytes + 1  // beside its line
                                                           : sizeof(Announced);
      lines.write_all(lines.number(), lines.own().digest, kind, likely);
    }
    if (!under_way || !operation->done.load() || operation->error) continue;
    const auto held = context.lock();
    anello::executor::OperationPool::renew(*operation);
    under_way = false;
  }
  // Also where nothing is: else it would wait for what control finds of calls that differ.
  context.abort(group, Error(ANELLO_ERR_ABORTED, "over"));
  if (under_way) {
    rank.finish(operation);
  } else {
    context.release(operation);
  }
  return 0;
}
