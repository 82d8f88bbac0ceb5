#include "transports/verbs/ceiling.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "transports/verbs/pages.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/registrations.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sched.h>

namespace anello::transport {
namespace {

constexpr std::int64_t kPatienceNs = 100'000'000;
constexpr int kStallMs = 10'000;  // without what must come next
constexpr std::size_t kWriteBytes = 64 * 1024, kBatch = 8, kBatches = 2;
constexpr std::size_t kSmallBytes = 8;
constexpr int kRequests = int(kBatch * kBatches);

// One end: its memory is read by its own writes, and written by the other's.
class Writer {
 public:
  explicit Writer(const std::shared_ptr<VerbsPort>& port)
      : pages_(kWriteBytes),
        region_(VerbsDomain::of(port), pages_.memory(), port->ring_access()),
        pair_(port, {kRequests, kRequests, port->ring_access(), 1}) {}

  void connect(const Writer& other) {
    const std::string why_not = pair_.connect(pair_.port().address(), other.pair_.name());
    if (!why_not.empty()) throw Error(ANELLO_ERR_SYSTEM, why_not);
  }

  // Over iWARP, both ends are joined at the same time.
  void wait_for_joining(Writer& other) {
    const Deadline limit = Deadline::in_ms(kStallMs);
    while (!pair_.is_joined() || !other.pair_.is_joined()) {
      take_completions();
      other.take_completions();
      if (limit.passed()) throw Error(ANELLO_ERR_TIMEOUT, "the port's queue pairs cannot be joined with each other");
      ::sched_yield();
    }
  }

  // A small one that the other end hears of.
  void write_small(const Writer& other) {
    wait_for(sent_, small_);  // the one before
    check(pair_.post({.from = pages_.data(),
                      .key = region_.local_key(),
                      .bytes = kSmallBytes,
                      .to = address_of(other),
                      .to_key = other.region_.remote_key()}));
    ++small_;
  }
  void hear() {
    wait_for(came_, ++heard_);
    check(pair_.post_receives(1));
  }
  void wait_for_small() { wait_for(sent_, small_); }

  // kBatch large ones, of which the last has a completion.
  void write_batch(const Writer& other) {
    std::array<VerbsQueuePair::Move, kBatch> moves;
    moves.fill({.local = pages_.data(),
                .key = region_.local_key(),
                .bytes = kWriteBytes,
                .remote = address_of(other),
                .remote_key = other.region_.remote_key()});
    std::size_t posted = 0;
    check(pair_.post(moves, true, &posted));
  }
  std::uint64_t sent() const { return sent_; }
  void wait_for_sent(std::uint64_t count) { wait_for(sent_, count); }

 private:
  static std::uint64_t address_of(const Writer& other) { return reinterpret_cast<std::uintptr_t>(other.pages_.data()); }
  static void check(int error) {
    if (error != 0) throw system_error("a request", error);
  }
  void wait_for(const std::uint64_t& counter, std::uint64_t value) {
    const Deadline limit = Deadline::in_ms(kStallMs);
    take_completions();
    while (counter < value) {
      if (limit.passed()) throw Error(ANELLO_ERR_TIMEOUT, text("the adapter completed nothing for ", kStallMs, " ms"));
      ::sched_yield();
      take_completions();
    }
  }

  void take_completions() {
    for (const ibv_wc& completion : pair_.poll()) {
      if (completion.status != IBV_WC_SUCCESS) {
        const std::string why = pair_.why_not_joined();
        throw Error(ANELLO_ERR_SYSTEM, why.empty() ? completion_text(completion.status, completion.vendor_err) : why);
      }
      ++(completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? came_ : sent_);
    }
  }

  VerbsPages pages_;
  VerbsRegistration region_;
  VerbsQueuePair pair_;
  std::uint64_t sent_ = 0, came_ = 0;  // completions
  std::uint64_t small_ = 0, heard_ = 0;
};

// The best round: the others were disturbed.
double measure_latency(Writer& one, Writer& other) {
  std::int64_t best_ns = INT64_MAX;
  for (const std::int64_t begun_ns = now_ns(); now_ns() - begun_ns < kPatienceNs;) {
    const std::int64_t round_ns = now_ns();
    one.write_small(other);
    other.hear();
    other.write_small(one);
    one.hear();
    best_ns = std::min(best_ns, now_ns() - round_ns);
  }
  one.wait_for_small();
  other.wait_for_small();
  return double(best_ns) / 2 / 1000;
}

double measure_bandwidth(Writer& one, const Writer& other) {
  const std::uint64_t before = one.sent();
  const std::int64_t begun_ns = now_ns();
  std::uint64_t batches = 0;
  for (; now_ns() - begun_ns < kPatienceNs || batches == 0; ++batches) {
    if (batches >= kBatches) one.wait_for_sent(before + batches - kBatches + 1);
    one.write_batch(other);
  }
  one.wait_for_sent(before + batches);
  return double(batches * kBatch * kWriteBytes) / double(now_ns() - begun_ns);
}

}  // namespace

VerbsCeiling measure_verbs_ceiling(const VerbsSettings& settings) {
  VerbsCeiling ceiling;
  try {
    const std::shared_ptr<VerbsPort> port = VerbsPort::open(settings);
    ceiling.port = port->name();
    Writer one(port), other(port);
    one.connect(other);
    other.connect(one);
    one.wait_for_joining(other);
    ceiling.latency_us = measure_latency(one, other);
    ceiling.gbps = measure_bandwidth(one, other);
  } catch (const Error& error) {
    ceiling.why_not = error.text();
  }
  return ceiling;
}

}  // namespace anello::transport
