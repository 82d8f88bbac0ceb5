#include "transports/verbs/transfers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sched.h>

namespace anello::transport {
namespace {

// Adapters try again for a few seconds at most. Where none of the pieces under way ends in this time, none will: the
// refusal of memory that its owner has freed can be lost (rxe of Linux 6.1).
constexpr std::int64_t kSilentNs = 10'000'000'000;
// The time for an adapter to end the pieces of a queue pair that has stopped.
constexpr int kStopMs = 200;

// The key of registered memory: its length in pages, so that no transfer goes beyond, and the adapter's key.
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t key_of(std::size_t bytes, std::uint32_t remote_key) {
  return std::uint64_t{(bytes + kPage - 1) / kPage} << 32 | remote_key;
}
constexpr std::uint64_t bytes_of(std::uint64_t key) { return (key >> 32) * kPage; }

}  // namespace

VerbsTransfers::VerbsTransfers(int peer, const std::shared_ptr<VerbsPort>& port, VerbsRegistrations& registrations)
    : peer_(peer),
      port_(port),
      registrations_(registrations),
      piece_bytes_(std::min(port->limits().message_bytes, kMostPieceBytes)) {
  renew();
}

void VerbsTransfers::renew() {
  VerbsPairShape shape;
  shape.sends = std::min(port_->limits().requests, kMostUnderWay);
  shape.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  shape.reads = std::min(port_->limits().reads_served, kMostUnderWay);
  open_ = false;
  posted_ = completed_ = 0;
  try {
    pair_ = std::make_unique<VerbsQueuePair>(port_, shape);
  } catch (const Error& error) {
    log::info(-1, "messages to and from rank ", peer_, " are copied: ", error.text());
  }
}

VerbsTransfers::~VerbsTransfers() {
  if (!in_forked_child()) stop();
}

void VerbsTransfers::connect(const PortAddress& port, const VerbsPairName& peer) {
  if (is_over()) return;
  std::string why_not;
  if (peer.number == 0) why_not = "its adapter has no queue pair for it";
  if (why_not.empty()) why_not = pair_->connect(port, peer);
  if (why_not.empty() && pair_->reads() == 0) why_not = "the adapters cannot read each other's memory";
  if (!why_not.empty()) give_up(why_not);
}

// ---- This rank's memory ----

RemoteAddress VerbsTransfers::give_out(const memory::Buffer& buffer, VerbsAccess access,
                                       std::shared_ptr<const void>* kept) {
  if (is_over()) return {};
  const VerbsRegistrations::Held held = registrations_.of(buffer, access);
  if (held == nullptr) return {};
  *kept = held;
  const auto at = reinterpret_cast<std::uintptr_t>(buffer.at);
  return {at, key_of(held->bytes(), held->remote_key()), at - held->begin()};
}

// ---- Transfers ----

int VerbsTransfers::why_not(const Transfer& transfer, const VerbsRegistrations::Held& local) const {
  if (!is_open()) return ECONNABORTED;
  const std::uint64_t room = bytes_of(transfer.at.key);
  if (transfer.at.offset > room || transfer.bytes > room - transfer.at.offset) return EFAULT;
  return local == nullptr && transfer.bytes > 0 ? ENOTSUP : 0;
}

void VerbsTransfers::begin(const Transfer& transfer, bool puts) {
  VerbsRegistrations::Held local;
  if (transfer.bytes > 0) {
    memory::Buffer buffer{transfer.local, transfer.bytes, transfer.space, {}};
    if (transfer.space == memory::Space{}) buffer.spot = memory::find_region(transfer.local, transfer.bytes);
    local = registrations_.of(buffer, VerbsAccess::peers_load);
  }
  const int error = why_not(transfer, local);
  if (error != 0 || transfer.bytes == 0) {
    ended_.push_back({transfer.token, error});
    return;
  }
  moving_.push_back({transfer, puts, std::move(local), 0});
  post_batches();
}

void VerbsTransfers::post_batches() {
  for (std::size_t i = 0; i < moving_.size(); ++i) {
    while (!is_over() && i < moving_.size() && moving_[i].rest.bytes > 0) {
      if (!post_batch(moving_[i])) return;
    }
  }
}

// False: there is no room for more, or it has just failed.
bool VerbsTransfers::post_batch(Moving& moving) {
  const auto most = std::size_t(pair_->reads());
  const std::size_t in_batch = std::max<std::size_t>(most / kBatches, 1);
  const std::size_t room = std::min(most - std::size_t(under_way()), in_batch);
  Transfer& rest = moving.rest;
  std::array<VerbsQueuePair::Move, VerbsQueuePair::kMostTogether> moves;
  std::size_t count = 0, planned = 0;
  for (; count < room && planned < rest.bytes; ++count) {
    const std::size_t bytes = std::min(rest.bytes - planned, piece_bytes_);
    moves[count] = {rest.local + planned,      moving.local->local_key(),  std::uint32_t(bytes),
                    rest.at.address + planned, std::uint32_t(rest.at.key), posted_ + count + 1};
    planned += bytes;
  }
  if (count == 0) return false;
  std::size_t posted = 0;
  const int error = pair_->post({moves.data(), count}, moving.puts, &posted);
  posted_ += posted;
  if (error != 0) {
    give_up(system_text("ibv_post_send", error));
    return false;
  }
  rest.local += planned;
  rest.at.address += planned;
  rest.at.offset += planned;
  rest.bytes -= planned;
  ++moving.batches;
  ++batches_posted_;
  if (batches_.empty()) moved_ns_ = now_ns();
  batches_.push_back({posted_, rest.token});
  return true;
}

void VerbsTransfers::progress() {
  if (is_over() || batches_.empty()) return;
  poll();
  post_batches();
  if (!batches_.empty() && now_ns() - moved_ns_ > kSilentNs) give_up("no piece has ended for 10 s");
}

void VerbsTransfers::poll() {
  while (!is_over()) {
    const std::span<const ibv_wc> came = pair_->poll();
    if (came.empty()) return;
    std::string failed;
    for (const ibv_wc& completion : came) {
      if (completion.status != IBV_WC_SUCCESS && failed.empty())
        failed = completion_text(completion.status, completion.vendor_err);
      take(completion);
    }
    if (!failed.empty()) give_up(failed);
  }
}

// A completion stands for all pieces before it, too. After an error each piece has one.
void VerbsTransfers::take(const ibv_wc& completion) {
  completed_ = std::max(completed_, completion.wr_id);
  moved_ns_ = now_ns();
  while (completion.status == IBV_WC_SUCCESS && !batches_.empty() && batches_.front().last <= completed_) {
    const Batch batch = batches_.front();
    batches_.pop_front();
    take_batch(batch);
  }
}

void VerbsTransfers::take_batch(const Batch& batch) {
  const auto moving = find(batch.token);
  if (--moving->batches > 0 || moving->rest.bytes > 0) return;
  ended_.push_back({batch.token, moving->puts ? 0 : moving->local->stores_are_seen()});
  moving_.erase(moving);
}

std::deque<VerbsTransfers::Moving>::iterator VerbsTransfers::find(Token token) {
  return std::find_if(moving_.begin(), moving_.end(), [token](const Moving& each) { return each.rest.token == token; });
}

std::optional<Transferred> VerbsTransfers::take_ended() {
  if (ended_.empty()) return std::nullopt;
  const Transferred first = ended_.front();
  ended_.pop_front();
  return first;
}

void VerbsTransfers::withdraw(Token token) {
  if (const auto moving = find(token); moving != moving_.end()) {
    moving->rest.bytes = 0;
    if (moving->batches == 0) return void(moving_.erase(moving));
    const std::int64_t begun_ns = now_ns(), limit_ns = std::int64_t{1'000'000} * port_->settings().withdraw_ms;
    for (poll(); find(token) != moving_.end(); poll()) {
      if (now_ns() - std::max(begun_ns, moved_ns_) > limit_ns) give_up("a transfer that is not wanted does not end");
      ::sched_yield();
    }
    post_batches();
  }
  std::erase_if(ended_, [token](const Transferred& each) { return each.token == token; });
}

// ---- The end ----

void VerbsTransfers::give_up(const std::string& why) {
  if (is_over()) return;
  log::info(-1, "messages to and from rank ", peer_, " are copied from now on: ", why);
  stop();
  batches_.clear();
  for (const Moving& each : moving_) ended_.push_back({each.rest.token, ECONNABORTED});
  moving_.clear();
}

// The pieces under way end; a queue pair that is destroyed ends those that an adapter has not.
void VerbsTransfers::stop() {
  if (is_over()) return;
  const Deadline limit = Deadline::in_ms(kStopMs);
  if (pair_->stop()) {
    while (under_way() > 0 && !limit.passed()) {
      for (const ibv_wc& completion : pair_->poll()) completed_ = std::max(completed_, completion.wr_id);
      if (under_way() > 0) ::sched_yield();
    }
  }
  counts_ = pair_->counts();
  pair_.reset();
}

}  // namespace anello::transport
