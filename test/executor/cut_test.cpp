#include "base/text.h"
#include "executor/rank_thread.h"
#include "support/catch.h"
#include "transports/faulty_transport.h"
#include "transports/inproc/transport.h"
#include "transports/shm/transport.h"
#include "transports/tcp/transport.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <vector>

using namespace anello;
using namespace anello::test;

namespace {

constexpr int kSize = 4;
constexpr std::size_t kCount = 4 * 1024;  // a ring of 2 * 3 messages each way, of one frame each
constexpr std::size_t kFrame = sizeof(transport::FrameHeader) + kCount / kSize * sizeof(float);

struct Carrier {
  const char* name;
  std::uint32_t bit;
  std::unique_ptr<transport::Transport> (*make)(const memory::Arena&);
};

const Carrier kCarriers[] = {
    {"inproc", transport::bit_of("inproc"), [](const memory::Arena& arena) { return transport::make_inproc(arena); }},
    {"shm", transport::bit_of("shm"), [](const memory::Arena& arena) { return transport::make_shm(arena); }},
    {"tcp", transport::bit_of("tcp"), [](const memory::Arena&) { return transport::make_tcp("auto"); }},
};

// Runs one all-reduce over a ring whose lane between rank 0 and its neighbour `peer` fails as planned, then another
// call. Returns the faults of their ends, or "".
std::string run_cut(const Carrier& carrier, int peer, const testing::FaultPlan& plan) {
  LocalJobs jobs(kSize, carrier.bit);
  std::mutex mutex;
  std::string wrong;
  int failed_first = 0;
  std::atomic<int> there{0};
  on_ranks(kSize, [&](int rank) {
    const MakeTransport make = [&](const memory::Arena& arena, int me) {
      auto inner = carrier.make(arena);
      if (me != 0) return inner;
      return testing::make_faulty(std::move(inner),
                                  [&, peer](int to) { return to == peer ? plan : testing::FaultPlan(); });
    };
    RankThread me(jobs, rank, carrier.bit, make);
    ++there;
    while (there < kSize) std::this_thread::yield();
    std::vector<float> data(kCount, float(rank + 1));
    const Error first = me.finish(me.allreduce(data.data(), kCount, "ring", kCount));
    const bool right = std::all_of(data.begin(), data.end(), [](float x) { return x == 10.0f; });
    const Error second = me.finish(me.allreduce(data.data(), kCount, "ring", kCount));
    const std::lock_guard held(mutex);
    if (first) ++failed_first;
    // A rank whose own part was done before the cut has the right sum; any other rank hears why it has not.
    if (!first && !right) wrong += text("rank ", rank, " returned a wrong sum; ");
    for (const Error* error : {&first, &second}) {
      if (*error && error->code() != ANELLO_ERR_PEER_LOST) wrong += text("rank ", rank, ": ", error->text(), "; ");
      if (*error && error->text().find("rank ") == std::string::npos) wrong += "an error names no rank; ";
    }
    if (!second) wrong += text("rank ", rank, " did not hear of the cut; ");
  });
  if (failed_first == 0) wrong += "no rank failed; ";
  return wrong;
}

}  // namespace

TEST_CASE("an all-reduce whose lane is cut at any step ends on every rank with the right error") {
  for (const Carrier& carrier : kCarriers) {
    // Each waits for a while, so that control could report: all steps at once.
    std::vector<std::future<std::string>> cuts;
    for (int step = 0; step < 6; ++step) {
      // Cuts in the header and in the payload in turn.
      const std::uint64_t at = std::uint64_t(step) * kFrame + (step % 2 == 0 ? 10 : 1000);
      testing::FaultPlan sent, received;
      sent.cut_sent_at = at;
      received.cut_received_at = at;
      const auto run = [&carrier](int peer, const testing::FaultPlan& plan) { return run_cut(carrier, peer, plan); };
      cuts.push_back(std::async(std::launch::async, run, 1, sent));
      cuts.push_back(std::async(std::launch::async, run, kSize - 1, received));
    }
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      CAPTURE(carrier.name, i / 2, i % 2);
      CHECK(cuts[i].get() == "");
    }
  }
}

TEST_CASE("lanes that delay and move few bytes at a time do not change the result") {
  for (const Carrier& carrier : kCarriers) {
    LocalJobs jobs(3, carrier.bit);
    std::mutex mutex;
    std::string wrong;
    std::atomic<int> there{0};
    on_ranks(3, [&](int rank) {
      RankThread me(jobs, rank, carrier.bit, [&](const memory::Arena& arena, int) {
        return testing::make_faulty(carrier.make(arena), [](int) {
          testing::FaultPlan slow;
          slow.delay_polls = 2;
          slow.short_bytes = 100;
          return slow;
        });
      });
      ++there;
      while (there < 3) std::this_thread::yield();
      for (const char* algorithm : {"ring", "tree", "doubling", "pairwise"}) {
        std::vector<float> data(3001, float(rank + 1));
        const Error error = me.finish(me.allreduce(data.data(), data.size(), algorithm, 500));
        const std::lock_guard held(mutex);
        if (error) wrong += text("rank ", rank, ", ", algorithm, ": ", error.text(), "; ");
        if (std::any_of(data.begin(), data.end(), [](float x) { return x != 6.0f; })) wrong += "a sum is wrong; ";
      }
    });
    CAPTURE(carrier.name);
    CHECK(wrong == "");
  }
}
