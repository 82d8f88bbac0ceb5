// Messages that the receiver gets from the sender's memory, over a remote memory that fails, is late, or never ends a
// transfer.
#include "base/clock.h"
#include "base/text.h"
#include "executor/rank_thread.h"
#include "memory/region.h"
#include "support/catch.h"
#include "transports/faulty_transport.h"
#include "transports/shm/transport.h"

#include <algorithm>
#include <atomic>
#include <mutex>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

namespace {

constexpr std::size_t kMessageBytes = 1024 * 1024;  // longer than a message that is got at once
constexpr int kMessages = 6;

class Region {
 public:
  Region() : base_(memory::make_region(kMessageBytes)) {}
  ~Region() { memory::free_region(base_); }
  std::byte* data() const { return base_; }

 private:
  std::byte* base_;
};

// Rank 1's access to rank 0's memory has the faults.
MakeTransport shm_with(LocalJobs& jobs, const testing::MemoryFaults& faults) {
  return [&jobs, faults](const memory::Arena& arena, int rank) {
    auto inner = transport::make_shm(
        arena, [&jobs, rank](int world, std::uint64_t key) { jobs.request_region(rank, world, key); });
    if (rank == 0) return inner;
    return testing::make_faulty(
        std::move(inner), [](int) { return testing::FaultPlan(); }, faults);
  };
}

struct Outcome {
  std::string wrong;
  std::uint64_t got = 0;  // messages that rank 1 got from rank 0's memory
};

// Rank 0 sends kMessages, one after the other.
Outcome stream(const testing::MemoryFaults& faults, std::size_t bytes) {
  LocalJobs jobs(2, transport::bit_of("shm"), {}, LocalJobs::Memory::file);
  std::mutex mutex;
  Outcome outcome;
  std::atomic<int> there{0};
  on_ranks(2, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), shm_with(jobs, faults));
    ++there;
    while (there < 2) std::this_thread::yield();
    const Region region;
    for (int message = 0; message < kMessages; ++message) {
      const auto fill = std::byte(message + 1);
      if (rank == 0) std::fill_n(region.data(), bytes, fill);
      const Error error = me.finish(me.message(rank == 0 ? ANELLO_SEND : ANELLO_RECV, 1 - rank, region.data(), bytes));
      const std::lock_guard held(mutex);
      if (error) outcome.wrong += text("rank ", rank, ": ", error.text(), "; ");
      if (std::any_of(region.data(), region.data() + bytes, [&](std::byte b) { return b != fill; }))
        outcome.wrong += text("message ", message, " brought wrong bytes; ");
    }
    if (rank == 1) outcome.got = me.group().taken.mapped;
  });
  return outcome;
}

}  // namespace

TEST_CASE("a rank gets messages from mapped memory, except those whose key is not here yet") {
  const std::size_t bytes = GENERATE(std::size_t{64 * 1024}, kMessageBytes);
  CAPTURE(bytes);
  const Outcome outcome = stream({}, bytes);
  CHECK(outcome.wrong == "");
  CHECK(outcome.got >= 1);
}

TEST_CASE("a transfer that ends late brings its message, and the sender sends the message of one that fails") {
  const std::size_t bytes = GENERATE(std::size_t{64 * 1024}, kMessageBytes);
  CAPTURE(bytes);
  testing::MemoryFaults late, failing, from_second;
  late.delay_polls = 50;
  failing.fail_from = 0;
  from_second.fail_from = 1;
  CHECK(stream(late, bytes).wrong == "");
  const Outcome none = stream(failing, bytes);
  CHECK(none.wrong == "");
  CHECK(none.got == 0);
  CHECK(stream(from_second, bytes).wrong == "");
}

TEST_CASE("a message whose transfer never ends keeps to its deadline, and an abort takes the transfer back") {
  const bool aborts = GENERATE(true, false);
  CAPTURE(aborts);
  testing::MemoryFaults stalled;
  stalled.stall_from = 0;
  LocalJobs jobs(2, transport::bit_of("shm"), {}, LocalJobs::Memory::file);
  std::mutex mutex;
  std::string wrong;
  std::atomic<int> there{0};
  on_ranks(2, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), shm_with(jobs, stalled));
    ++there;
    while (there < 2) std::this_thread::yield();
    const Region region;
    const auto kind = rank == 0 ? ANELLO_SEND : ANELLO_RECV;
    const auto add = [&](const std::string& what) {
      const std::lock_guard held(mutex);
      wrong += what;
    };
    // The first message brings the key, perhaps only a later one.
    for (int message = 0; message < 4; ++message) {
      Operation* const operation = me.message(kind, 1 - rank, region.data(), kMessageBytes, rank == 1 ? 2000 : 20'000);
      bool stalls = false;
      while (!stalls && !me.context().test(*operation)) stalls = !me.group().getting.empty();
      if (operation->done && !operation->error) {
        me.finish(operation);
        continue;
      }
      if (rank == 1 && !stalls) add("the receive is not getting its message; ");
      if (aborts && rank == 1) me.context().abort(me.group(), Error(ANELLO_ERR_ABORTED, "given up"));
      const Error error = me.finish(operation);
      const auto expected = aborts ? ANELLO_ERR_ABORTED : ANELLO_ERR_TIMEOUT;
      if (error.code() != expected) add(text("rank ", rank, " ends with ", error.text(), "; "));
      if (!me.group().getting.empty()) add("a receive is still getting its message; ");
      return;
    }
    add(text("rank ", rank, " got all of its messages; "));
  });
  CHECK(wrong == "");
}

TEST_CASE("while a rank gets a long message, its other threads send and receive") {
  LocalJobs jobs(2, transport::bit_of("shm"), {}, LocalJobs::Memory::file);
  std::mutex mutex;
  std::string wrong;
  std::atomic<int> there{0};
  const auto stream = [&](RankThread& me, int tag, std::size_t bytes, int messages) {
    const Region region;
    for (int message = 0; message < messages; ++message) {
      const auto fill = std::byte(17 * tag + message);
      if (me.rank() == 0) std::fill_n(region.data(), bytes, fill);
      const auto kind = me.rank() == 0 ? ANELLO_SEND : ANELLO_RECV;
      const Error error = me.finish(me.message(kind, 1 - me.rank(), region.data(), bytes, 20'000, tag));
      const std::lock_guard held(mutex);
      if (error) wrong += text("tag ", tag, ": ", error.text(), "; ");
      if (std::any_of(region.data(), region.data() + bytes, [&](std::byte b) { return b != fill; }))
        wrong += text("message ", message, " of tag ", tag, " brought wrong bytes; ");
    }
  };
  on_ranks(2, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), shm_with(jobs, {}));
    ++there;
    while (there < 2) std::this_thread::yield();
    std::thread others[] = {std::thread(stream, std::ref(me), 2, kMessageBytes, 20),
                            std::thread(stream, std::ref(me), 3, std::size_t{64}, 300)};
    stream(me, 1, kMessageBytes, 20);
    for (std::thread& other : others) other.join();
  });
  CHECK(wrong == "");
}
