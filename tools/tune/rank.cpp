// One rank of a job. There is a communicator for each way, made with a table that leaves it no choice, so that each way
// is measured on the path that a program would get. Ways take turns, size by size, round by round. All ranks learn the
// slowest rank's time of each measurement and make the same decision on the next one.
#include "base/error.h"
#include "base/machine.h"
#include "base/text.h"
#include "schedule/shape.h"
#include "schedule/tuning.h"
#include "tune/job.h"
#include "tune/wire.h"

#include <anello/anello.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>

namespace anello::tune {
namespace {

// A measurement lasts about this long, in calls without a pause.
constexpr double kSampleUs = 1000;
constexpr int kMostCalls = 10'000;
// One out of this many calls is done before, unmeasured.
constexpr int kWarming = 10;
// A way that takes this many times as long as the best one in the first measurement is not measured again.
constexpr double kHopeless = 3;
// Calls that take less time than this are measured twice before a way is dropped.
constexpr double kShortUs = 20'000;
// The placement of ranks may change within a round, and with it the time of all small calls. Short calls have this many
// turns in each round, an even number, so that a round ends with the size with which it began.
constexpr int kShortPasses = 4;
constexpr double kShortRoundUs = 10'000;
// Payloads that are always measured, however long it takes.
constexpr std::size_t kAlwaysBytes = 64 * 1024;

void require(anello_result_t result, anello_comm_t comm) {
  if (result != ANELLO_OK) throw std::runtime_error(anello_last_error(comm));
}

double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

anello_kind_t kind_of(schedule::Collective collective) {
  using enum schedule::Collective;
  switch (collective) {
    case allreduce: return ANELLO_ALLREDUCE;
    case broadcast: return ANELLO_BROADCAST;
    case allgather: return ANELLO_ALLGATHER;
    case reduce_scatter: return ANELLO_REDUCE_SCATTER_BLOCK;
    case reduce: return ANELLO_REDUCE;
    case gather: return ANELLO_GATHER;
    case scatter: return ANELLO_SCATTER;
    case alltoall: return ANELLO_ALLTOALL;
    case scan: return ANELLO_SCAN;
    case exscan: return ANELLO_EXSCAN;
    default: return ANELLO_BARRIER;
  }
}

// No rank returns before all have arrived.
bool synchronises(schedule::Collective collective) {
  using enum schedule::Collective;
  return collective == allreduce || collective == allgather || collective == reduce_scatter || collective == alltoall ||
         collective == barrier;
}

class Memory {
 public:
  Memory(std::size_t bytes, bool shared) : shared_(shared) {
    if (shared)
      require(anello_mem_alloc(bytes, &at_), ANELLO_COMM_NULL);
    else if ((at_ = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)) == nullptr)
      throw std::runtime_error(text("no memory for ", bytes, " bytes"));
    std::memset(at_, 0, bytes);
  }
  ~Memory() {
    if (shared_)
      anello_mem_free(at_);
    else
      std::free(at_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return at_; }

 private:
  bool shared_;
  void* at_ = nullptr;
};

class Bench {
 public:
  explicit Bench(Job job) : job_(std::move(job)) {
    require(anello_comm_create(nullptr, &control_), ANELLO_COMM_NULL);
    require(anello_comm_rank(control_, &rank_), control_);
    std::size_t in = 0, out = 0;
    for (const std::string& collective : job_.collectives)
      for (const std::size_t size : job_.sizes) {
        const schedule::Call call = call_of(collective, size, job_.ranks);
        in = std::max(in, schedule::largest_input(call, job_.ranks) * call.element_bytes);
        out = std::max(out, schedule::extent(schedule::Buffer::output, call, job_.ranks, 0) * call.element_bytes);
      }
    input_ = std::make_unique<Memory>(in + 64, job_.shared);
    output_ = std::make_unique<Memory>(out + 64, job_.shared);
  }

  void run() {
    const double share_us = job_.seconds * 1e6 / double(job_.collectives.size());
    for (std::size_t i = 0; i < job_.collectives.size(); ++i) measure(job_.collectives[i], share_us * double(i + 1));
    for (const auto& [way, comm] : comms_) anello_comm_destroy(comm);
    anello_comm_destroy(control_);
  }

 private:
  struct Entry {
    schedule::Call call;
    std::map<Way, int> calls;  // of one measurement
    Measured measured;
    double round_us = 0;  // the approximate time of a round of it
  };

  // Runs as many rounds as fit until end_us, and at least the least number; if that takes too long, it drops sizes, the
  // largest ones first.
  void measure(const std::string& collective, double end_us) {
    const double begin_us = wall_us_;
    std::vector<Entry> entries;
    double round_us = 0;
    for (const std::size_t size : job_.sizes) {
      // If each rank gets a part, several of the smallest sizes are one element per rank.
      if (!entries.empty() && call_of(collective, size, job_.ranks) == entries.back().call) continue;
      Entry entry = first_look(collective, size);
      round_us += entry.round_us;
      const bool too_long = wall_us_ + round_us * job_.rounds > end_us || wall_us_ - begin_us > (end_us - begin_us) / 2;
      if (too_long && size > kAlwaysBytes && job_.seconds > 0) break;
      entries.push_back(std::move(entry));
    }
    for (int round = 0; !entries.empty(); ++round) {
      const double round_began_us = wall_us_;
      for (int pass = 0; pass < kShortPasses; ++pass) {
        for (Entry& entry : entries) {
          if (pass == 0 || entry.round_us < kShortRoundUs) take_turns(entry);
        }
        // Goes up and down in turn. Otherwise the smallest size would always follow the largest, which leaves caches
        // and clock frequencies in another state than small calls do, for some milliseconds.
        std::ranges::reverse(entries);
      }
      const bool next_is_too_long = wall_us_ + (wall_us_ - round_began_us) > end_us;
      if (round + 1 >= job_.rounds && next_is_too_long) break;
    }
    if (rank_ != 0) return;
    for (const Entry& entry : entries) std::cout << as_json(entry.measured) << std::endl;
  }

  // Finds the ways that are worth measuring, and how often.
  Entry first_look(const std::string& collective, std::size_t size) {
    Entry entry{call_of(collective, size, job_.ranks), {}, {collective, 0, {}}, 0};
    entry.measured.bytes = schedule::largest_input(entry.call, job_.ranks) * entry.call.element_bytes;
    std::map<Way, double> first;
    double best = HUGE_VAL;
    for (const Way& way : ways_for(job_, entry.call)) {
      // Other chunks do not help a hopeless algorithm.
      if (const auto base = first.find({way.algorithm, 0}); base != first.end() && base->second > kHopeless * best)
        continue;
      time(way, entry.call, 1);  // makes the plan, touches the pages
      first[way] = time(way, entry.call, 1);
      if (first[way] < kShortUs) first[way] = std::min(first[way], time(way, entry.call, 1));
      // The time of a single short call is mostly the wait for the later rank, which may have slept.
      for (int calls = 10; calls < kMostCalls && first[way] * calls < (calls == 10 ? kShortUs : kSampleUs); calls *= 10)
        first[way] = std::min(first[way], time(way, entry.call, calls));
      best = std::min(best, first[way]);
    }
    for (const auto& [way, us] : first) {
      if (us > kHopeless * best && !way.algorithm.empty()) continue;
      const int calls = entry.calls[way] = calls_of(us);
      entry.round_us += us * (calls + 1);
    }
    return entry;
  }

  // One round. The order is different each time, but equal on all ranks: each way finds the caches as the previous one
  // left them, and does not count its first calls.
  void take_turns(Entry& entry) {
    std::vector<std::pair<Way, int>> turns(entry.calls.begin(), entry.calls.end());
    std::shuffle(turns.begin(), turns.end(), order_);
    for (const auto& [way, calls] : turns) {
      time(way, entry.call, 1 + calls / kWarming);
      const double us = time(way, entry.call, calls);
      entry.measured.times[way].push_back(us);
      // A rank that lost its processor for a time slice in the first measurement made the way look slow. Few calls are
      // really slow.
      entry.calls[way] = std::max(calls, calls_of(us));
    }
  }

  static int calls_of(double us) { return std::clamp(int(kSampleUs / us), 1, kMostCalls); }

  // The time of one call, by the slowest rank's clock; equal on all ranks.
  double time(const Way& way, const schedule::Call& what, int calls) {
    const anello_comm_t comm = comm_for(way);
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = kind_of(what.collective);
    call.dtype = ANELLO_FLOAT32;
    // All-reduces run as in programs: if no rank wrote the input, each rank would find the others' inputs in its own
    // caches.
    call.sendbuf = what.collective == schedule::Collective::allreduce ? ANELLO_IN_PLACE : input_->get();
    call.recvbuf = output_->get();
    call.count = what.count;
    require(anello_barrier(control_), control_);
    const double begin = now_us();
    for (int i = 0; i < calls; ++i) {
      require(anello_post(comm, &call, nullptr), comm);
      // Otherwise ranks that have nothing to wait for would be several calls ahead, and the time would depend on how
      // many calls fit in between.
      if (!synchronises(what.collective)) require(anello_barrier(control_), control_);
    }
    const double end = now_us();
    double us[] = {(end - begin) / calls, end - begin_us_};
    require(anello_allreduce(ANELLO_IN_PLACE, us, 2, ANELLO_FLOAT64, ANELLO_MAX, control_), control_);
    wall_us_ = us[1];
    return us[0];
  }

  anello_comm_t comm_for(const Way& way) {
    const auto known = comms_.find(way);
    if (known != comms_.end()) return known->second;
    if (rank_ == 0) write_table(way);
    anello_comm_t comm = ANELLO_COMM_NULL;
    require(anello_comm_create(nullptr, &comm), ANELLO_COMM_NULL);
    return comms_[way] = comm;
  }
  // Rank 0 finds it there when the communicator is made.
  void write_table(const Way& way) {
    schedule::Tuning table{machine_name(), {}, ""};
    // Ranks ask each other which buffers they can reach if any rule needs this, and the answer takes time. So it must
    // be here as it will be with the resulting table. Ranks cannot store into memory from malloc.
    for (schedule::Rule rule : schedule::rules()) {
      if (job_.shared || rule.reach == schedule::Reach::none) continue;
      rule.reach = schedule::Reach::store;
      table.rules.push_back(rule);
    }
    for (const schedule::Algorithm& row : schedule::catalog()) {
      if (row.name != way.algorithm) continue;
      schedule::Rule rule;
      rule.collectives = row.collective;
      rule.algorithm = row.name;
      rule.chunk_bytes = way.chunk_bytes;
      table.rules.push_back(rule);
    }
    std::ofstream file(std::getenv("ANELLO_TUNING"));
    file << (way.algorithm.empty() && !job_.table.empty() ? job_.table : print(table));
    file.close();
    if (!file) throw std::runtime_error(text("cannot write ", std::getenv("ANELLO_TUNING")));
  }

  Job job_;
  int rank_ = 0;
  anello_comm_t control_ = ANELLO_COMM_NULL;
  std::mt19937 order_{1};
  const double begin_us_ = now_us();
  double wall_us_ = 0;  // since the job began, by the slowest rank's clock: equal on all ranks
  std::map<Way, anello_comm_t> comms_;
  std::unique_ptr<Memory> input_;
  std::unique_ptr<Memory> output_;
};

}  // namespace

int be_a_rank(const std::string& job) {
  // The first communicator has no table yet.
  if (const char* const rank = std::getenv("RANK"); rank != nullptr && std::strcmp(rank, "0") == 0)
    std::ofstream(std::getenv("ANELLO_TUNING")) << print(schedule::Tuning{machine_name(), {}, ""});
  Bench(job_from(job)).run();
  return 0;
}

}  // namespace anello::tune
