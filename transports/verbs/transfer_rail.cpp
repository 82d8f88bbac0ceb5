#include "transports/verbs/transfer_rail.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/unique_fd.h"

#include <algorithm>
#include <array>
#include <utility>

#include <sched.h>

namespace anello::transport {
namespace {

// The time for an adapter to end the pieces of a queue pair that has stopped.
constexpr int kStopMs = 200;

bool is_refusal(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_ACCESS_ERR: return true;
    default: return false;
  }
}

}  // namespace

VerbsTransferRail::VerbsTransferRail(std::shared_ptr<VerbsPort> port, VerbsRegistrations& registrations)
    : port_(std::move(port)),
      registrations_(registrations),
      piece_bytes_(std::min(port_->limits().message_bytes, kMostPieceBytes)) {
  make();
}

VerbsTransferRail::~VerbsTransferRail() {
  if (!in_forked_child()) stop();
}

void VerbsTransferRail::make() {
  VerbsPairShape shape;
  shape.sends = std::min(port_->limits().requests, kMostUnderWay);
  shape.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  shape.reads = std::min(port_->limits().reads_served, kMostUnderWay);
  is_connected_ = open_ = has_told_end_ = false;
  posted_ = completed_ = 0;
  try {
    pair_ = std::make_unique<VerbsQueuePair>(port_, shape);
  } catch (const Error& error) {
    why_ = error.text();
  }
}

VerbsPairName VerbsTransferRail::offer() {
  if (std::exchange(offered_, true)) {
    ++round_;
    make();
  }
  return is_over() ? VerbsPairName{} : pair_->name();
}

std::string VerbsTransferRail::connect(std::size_t partner, const PortAddress& port, const VerbsPairName& peer) {
  partner_ = partner;
  if (is_over()) return {};
  if (peer.number == 0) return "its adapter has no queue pair for it";
  const std::string why_not = pair_->connect(port, peer);
  is_connected_ = why_not.empty();
  return why_not.empty() && pair_->reads() == 0 ? "the adapters cannot read each other's memory" : why_not;
}

std::size_t VerbsTransferRail::room() const {
  if (!is_open()) return 0;
  const auto most = std::size_t(pair_->reads());
  const std::size_t in_batch = std::max<std::size_t>(most / kBatches, 1);
  return std::min(most - std::size_t(pieces_under_way()), in_batch) * piece_bytes_;
}

std::string VerbsTransferRail::post(const Part& part) {
  std::array<VerbsQueuePair::Move, VerbsQueuePair::kMostTogether> moves;
  std::size_t count = 0;
  for (std::size_t planned = 0; planned < part.bytes; ++count) {
    const std::size_t bytes = std::min(part.bytes - planned, piece_bytes_);
    moves[count] = {part.local + planned,  part.local_key,  std::uint32_t(bytes),
                    part.remote + planned, part.remote_key, posted_ + count + 1};
    planned += bytes;
  }
  std::size_t posted = 0;
  const int error = pair_->post({moves.data(), count}, part.puts, &posted);
  posted_ += posted;
  if (batches_.empty()) moved_ns_ = now_ns();
  batches_.push_back({posted_, part});
  bytes_under_way_ += part.bytes;
  ++batches_posted_;
  return error != 0 ? system_text("ibv_post_send", error) : std::string();
}

// A completion stands for all pieces before it, too. After an error each piece has one.
std::string VerbsTransferRail::poll(std::vector<Part>* ended, bool* refused) {
  std::string failed;
  while (failed.empty() && !is_over()) {
    const std::span<const ibv_wc> came = pair_->poll();
    if (came.empty()) return {};
    for (const ibv_wc& completion : came) {
      completed_ = std::max(completed_, completion.wr_id);
      moved_ns_ = now_ns();
      if (completion.status != IBV_WC_SUCCESS) {
        if (!failed.empty()) continue;
        failed = pair_->why_not_joined();
        if (failed.empty()) failed = completion_text(completion.status, completion.vendor_err);
        *refused = is_refusal(completion.status);
      }
      while (failed.empty() && !batches_.empty() && batches_.front().last <= completed_) {
        ended->push_back(batches_.front().part);
        bytes_under_way_ -= batches_.front().part.bytes;
        batches_.pop_front();
      }
    }
  }
  return failed;
}

std::vector<VerbsTransferRail::Part> VerbsTransferRail::end(const std::string& why) {
  if (is_over()) return {};
  why_ = why;
  stop();
  std::vector<Part> parts;
  for (const Batch& batch : batches_) parts.push_back(batch.part);
  batches_.clear();
  bytes_under_way_ = 0;
  return parts;
}

// The pieces under way end; a queue pair that is destroyed ends those that an adapter has not.
void VerbsTransferRail::stop() {
  if (is_over()) return;
  const Deadline limit = Deadline::in_ms(kStopMs);
  if (pair_->stop()) {
    while (pieces_under_way() > 0 && !limit.passed()) {
      for (const ibv_wc& completion : pair_->poll()) completed_ = std::max(completed_, completion.wr_id);
      if (pieces_under_way() > 0) ::sched_yield();
    }
  }
  counts_ = pair_->counts();
  pair_.reset();
}

}  // namespace anello::transport
