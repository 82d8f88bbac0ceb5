#include "transports/verbs/rail.h"

#include "base/clock.h"
#include "base/text.h"

#include <utility>

#include <arpa/inet.h>

namespace anello::transport {
namespace {

constexpr std::int64_t kQuietNs = 100'000'000;

VerbsPairShape shape_on(const VerbsPort& port) { return {kLaneRequests, kLaneRequests, port.ring_access(), 1}; }

}  // namespace

VerbsRail::VerbsRail(std::shared_ptr<VerbsPort> port, const VerbsPages& ring, const VerbsPages& staging)
    : port_(std::move(port)),
      staging_(staging),
      ring_here_(VerbsDomain::of(port_), ring.memory(), port_->ring_access()),
      staging_here_(VerbsDomain::of(port_), staging.memory(), 0) {
  make();
}

void VerbsRail::make() {
  pair_ = std::make_unique<VerbsQueuePair>(port_, shape_on(*port_));
  came_ = arrived_ = posted_ = 0;
  used_receives_ = 0;
  returns_ = port_->events().returns();
  state_ = State::made;
}

RailOffer VerbsRail::offer() const { return {port_->address(), pair_->name(), {}, ring_here_.remote_key()}; }

std::string VerbsRail::connect(const RailOffer& theirs) {
  std::string why_not = pair_->connect(theirs.port, theirs.pair);
  peer_key_ = theirs.ring_key;
  if (why_not.empty()) state_ = pair_->is_joined() ? State::connected : State::joining;
  return why_not;
}

bool VerbsRail::takes_joined() {
  if (state_ != State::joining || !pair_->is_joined()) return false;
  state_ = State::connected;
  return true;
}

// ---- Moving ----

bool VerbsRail::post(const LanePiece& piece, std::uint32_t number, std::uint64_t peer_ring) {
  const std::size_t at = piece.slot % kSlots * kSlotBytes;
  if (posted_ - arrived_ == log_.size()) return false;
  const int error = pair_->post({.from = staging_.data() + at,
                                 .key = staging_here_.local_key(),
                                 .bytes = piece.bytes,
                                 .to = peer_ring + at,
                                 .to_key = peer_key_,
                                 .number = number});
  if (error != 0) {
    stop(system_text("ibv_post_send", error));
    return false;
  }
  log_[posted_++ % log_.size()] = piece;
  under_way_ += piece.bytes + 1;
  return true;
}

void VerbsRail::poll(LaneUser& lane) {
  // What comes later is not counted, and is sent again.
  if (pair_ == nullptr || state_ == State::ended) return;
  for (std::span<const ibv_wc> came = pair_->poll(); !came.empty(); came = pair_->poll()) {
    for (const ibv_wc& completion : came) take(completion, lane);
    if (used_receives_ > 0 && is_up() && pair_->post_receives(used_receives_) != 0) stop("ibv_post_recv failed");
    used_receives_ = 0;
  }
}

// Of a completion with an error, only the id, the status and the vendor's code are valid.
void VerbsRail::take(const ibv_wc& completion, LaneUser& lane) {
  if (completion.status != IBV_WC_SUCCESS) {
    if (!is_up()) return;
    port_->events().look();
    const bool is_link_down = port_->events().is_link_down();
    return stop(text(why_failed(completion), is_link_down ? "; the link of this rank's port is down" : ""));
  }
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    ++used_receives_;
    ++came_;
    lane.came(ntohl(completion.imm_data));
  } else if (completion.opcode == IBV_WC_RDMA_WRITE && arrived_ < posted_) {
    const LanePiece piece = log_[arrived_++ % log_.size()];
    under_way_ -= piece.bytes + 1;
    lane.sent(piece);
  }
}

std::string VerbsRail::why_failed(const ibv_wc& completion) const {
  if (std::string why = pair_->why_not_joined(); !why.empty()) return why;
  if (port_->is_iwarp() && completion.status == IBV_WC_WR_FLUSH_ERR)
    return "the adapters' connection has ended: the peer's process has, a link is down, or the network drops it";
  return completion_text(completion.status, completion.vendor_err);
}

// ---- The end ----

void VerbsRail::stop(const std::string& why) {
  if (!is_up()) return;
  why_ = why;
  stopped_ns_ = now_ns();
  returns_ = port_->events().returns();
  state_ = State::ending;
  pair_->stop();
}

// siw drops what is posted to a queue pair that has failed, before its owner knows of it. Of all else it has the
// completions when the queue pair stops; other adapters may take a moment.
std::int64_t VerbsRail::ends_ns() const { return port_->is_iwarp() ? stopped_ns_ + kQuietNs : 0; }

bool VerbsRail::has_ended() const {
  if (state_ != State::ending) return false;
  return pair_->posted() == 0 || (port_->is_iwarp() && now_ns() > ends_ns());
}

bool VerbsRail::resolve(std::uint64_t came, LaneUser& lane) {
  if (came < arrived_ || came > posted_) return false;
  counts_ = pair_->counts();
  pair_.reset();
  under_way_ = 0;
  state_ = State::down;
  while (arrived_ < posted_) {
    const std::uint64_t number = arrived_++;
    const LanePiece& piece = log_[number % log_.size()];
    number < came ? lane.sent(piece) : lane.lost(piece);
  }
  return true;
}

bool VerbsRail::may_return() const {
  const VerbsPortEvents& events = port_->events();
  return events.returns() != returns_ && !events.is_link_down() && !events.has_failed();
}

}  // namespace anello::transport
