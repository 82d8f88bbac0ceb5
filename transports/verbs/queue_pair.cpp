#include "transports/verbs/queue_pair.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/write_signals.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>

namespace anello::transport {
namespace {

// Asked for; an adapter that copies less into a request gets a queue pair without.
constexpr std::uint32_t kInlineBytes = 256, kLeastInlineBytes = 32;
constexpr int kDrainMs = 200;
// A receive request is always there, so the peer's adapter need not ask again and again.
constexpr std::uint8_t kUnreadyRetries = 3;

// siw sends over a socket of the kernel's, in the caller's name: where the peer has closed it, the caller would get
// SIGPIPE.
class Quiet {
 public:
  explicit Quiet(const VerbsPort& port) {
    if (port.is_iwarp()) held_.emplace();
  }

 private:
  std::optional<WriteSignalsHeld> held_;
};

[[noreturn]] void fail(const char* call) { throw Error(ANELLO_ERR_RESOURCE, why_not_made(call, errno)); }

// What the device must hold: over iWARP, a write with a number is two requests.
VerbsPairShape capacity_on(const VerbsPort& port, const VerbsPairShape& shape) {
  VerbsPairShape capacity = shape;
  if (port.is_iwarp()) {
    capacity.sends = VerbsSentNotes::sends_of(shape.sends);
    capacity.receives = VerbsSentNotes::receives_of(shape.receives);
  }
  return capacity;
}

std::uint32_t random_packet() {
  std::uint32_t number = 0;
  [[maybe_unused]] const ssize_t got = ::getrandom(&number, sizeof number, 0);
  return number & 0xffffff;
}

}  // namespace

VerbsQueuePair::VerbsQueuePair(std::shared_ptr<VerbsPort> port, const VerbsPairShape& shape)
    : port_(std::move(port)), shape_(shape), capacity_(capacity_on(*port_, shape)), first_packet_(random_packet()) {
  try {
    if (port_->is_iwarp()) notes_ = std::make_unique<VerbsSentNotes>(port_, shape_.sends, capacity_.receives);
    channel_ = verbs_library().create_comp_channel(port_->context());
    if (channel_ == nullptr) fail("ibv_create_comp_channel");
    remember_descriptor(channel_->fd);
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    const int completions = capacity_.sends + capacity_.receives;
    queue_ = verbs_library().create_cq(port_->context(), completions, nullptr, channel_, 0);
    if (queue_ == nullptr) fail("ibv_create_cq");
    create_pair();
    if (const int error = modify_to_init(); error != 0) throw system_error("ibv_modify_qp to INIT", error);
    if (const int error = post_receives(capacity_.receives); error != 0) throw system_error("ibv_post_recv", error);
    if (port_->is_iwarp()) place_ = port_->joiner()->expect(*this, pair_->qp_num, shape_.reads);
  } catch (const Error& error) {
    release();
    throw Error(ANELLO_ERR_RESOURCE, text(port_->name(), ": ", error.text()));
  }
}

void VerbsQueuePair::create_pair() {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = std::uint32_t(capacity_.sends);
  wanted.cap.max_recv_wr = std::uint32_t(capacity_.receives);
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = capacity_.receives > 0 ? 1 : 0;
  for (const std::uint32_t inlined : {kInlineBytes, kLeastInlineBytes, 0u}) {
    wanted.cap.max_inline_data = inlined;
    pair_ = verbs_library().create_qp(port_->domain(), &wanted);
    if (pair_ != nullptr) break;
  }
  if (pair_ == nullptr) fail("ibv_create_qp");
  inline_bytes_ = wanted.cap.max_inline_data;
}

VerbsQueuePair::~VerbsQueuePair() {
  if (!in_forked_child()) release();
}

void VerbsQueuePair::release() {
  const Quiet quiet(*port_);
  if (place_.secret != 0) port_->joiner()->forget(place_.secret);
  if (pair_ != nullptr) verbs_library().destroy_qp(pair_);
  if (queue_ != nullptr) verbs_library().destroy_cq(queue_);
  if (channel_ == nullptr) return;
  forget_descriptor(channel_->fd);
  verbs_library().destroy_comp_channel(channel_);
}

// ---- Connecting ----

int VerbsQueuePair::modify_to_init() {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = std::uint16_t(port_->settings().pkey_index);
  to.port_num = std::uint8_t(port_->number());
  to.qp_access_flags = unsigned(shape_.access);
  if (port_->is_iwarp()) return verbs_library().modify_qp(pair_, &to, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
  return verbs_library().modify_qp(pair_, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int VerbsQueuePair::modify_to_receive(const PortAddress& port, const VerbsPairName& peer) {
  const VerbsSettings& settings = port_->settings();
  const PortAddress mine = port_->address();
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = ibv_mtu(std::min(mine.mtu, port.mtu));
  to.dest_qp_num = peer.number;
  to.rq_psn = peer.first_packet;
  to.max_dest_rd_atomic = std::uint8_t(shape_.reads);
  to.min_rnr_timer = std::uint8_t(settings.rnr_timer);
  to.ah_attr.sl = std::uint8_t(settings.service_level);
  to.ah_attr.port_num = std::uint8_t(port_->number());
  to.ah_attr.dlid = std::uint16_t(port.lid);
  if (mine.link == PortAddress::kEthernet) {
    to.ah_attr.is_global = 1;
    std::copy(port.gid.begin(), port.gid.end(), to.ah_attr.grh.dgid.raw);
    to.ah_attr.grh.sgid_index = std::uint8_t(port_->gid_index());
    to.ah_attr.grh.hop_limit = 255;
    to.ah_attr.grh.traffic_class = std::uint8_t(settings.traffic_class);
  }
  return verbs_library().modify_qp(pair_, &to,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int VerbsQueuePair::modify_to_send() {
  const VerbsSettings& settings = port_->settings();
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTS;
  to.timeout = std::uint8_t(settings.timeout);
  to.retry_cnt = std::uint8_t(settings.retry);
  to.rnr_retry = kUnreadyRetries;
  to.sq_psn = first_packet_;
  to.max_rd_atomic = std::uint8_t(reads_);
  return verbs_library().modify_qp(
      pair_, &to,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

std::string VerbsQueuePair::connect(const PortAddress& port, const VerbsPairName& peer) {
  reads_ = std::min({port_->limits().reads_begun, shape_.sends, int(std::min(peer.reads, std::uint32_t{UINT8_MAX}))});
  try {
    if (!port_->address().joins(port)) return "its port is of another kind or subnet";
    if (port_->is_iwarp()) return join(port, peer);
    if (const int error = modify_to_receive(port, peer); error != 0) {
      return text(system_text("ibv_modify_qp to RTR", error), "; is the peer's address reachable from this port, and ",
                  "is GID index ", port_->gid_index(), " right (ANELLO_VERBS_GID_INDEX)?");
    }
    if (const int error = modify_to_send(); error != 0) return system_text("ibv_modify_qp to RTS", error);
    is_joined_ = true;
  } catch (const Error& error) {
    return error.text();
  }
  return {};
}

// Both ends find the same one of them to dial.
std::string VerbsQueuePair::join(const PortAddress& port, const VerbsPairName& peer) {
  reads_ = std::min(reads_, shape_.reads);
  if (peer.tcp_port == 0) return "its adapter's port has no listener";
  const auto mine = std::pair(port_->address().bytes(), pair_->qp_num), its = std::pair(port.bytes(), peer.number);
  if (mine < its) port_->joiner()->dial(place_.secret, port, {peer.tcp_port, peer.secret}, reads_);
  return {};
}

// Its completion tells this rank's thread.
void VerbsQueuePair::may_send() {
  const Quiet quiet(*port_);
  if (notes_->post_first(pair_) != 0) not_joined();
}

void VerbsQueuePair::not_joined() {
  is_refused_ = true;
  stop();
}

std::string VerbsQueuePair::why_not_joined() const {
  return is_joined_ || !port_->is_iwarp() ? "" : port_->joiner()->why_not(place_.secret);
}

// ---- Moving ----

int VerbsQueuePair::post(const Write& write) {
  ibv_sge part{reinterpret_cast<std::uintptr_t>(write.from), std::uint32_t(write.bytes), write.key};
  ibv_send_wr request{};
  request.wr_id = write.id;
  request.sg_list = &part;
  request.num_sge = write.bytes > 0 ? 1 : 0;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  if (write.bytes > 0 && write.bytes <= inline_bytes_) request.send_flags |= IBV_SEND_INLINE;
  request.imm_data = htonl(write.number);
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.to_key;
  if (const int error = post_request(write, request); error != 0) return error;
  ++counts_.writes;
  counts_.bytes += write.bytes;
  return 0;
}

int VerbsQueuePair::post_request(const Write& write, ibv_send_wr& request) {
  const Quiet quiet(*port_);
  int posted = 1;
  ibv_send_wr* bad = nullptr;
  const int error = notes_ == nullptr ? ibv_post_send(pair_, &request, &bad)
                                      : notes_->post(pair_, request, write.number, inline_bytes_ > 0, &posted);
  if (error == 0 || notes_ != nullptr) posted_ += posted;
  return error;
}

int VerbsQueuePair::post(std::span<const Move> moves, bool writes, std::size_t* posted) {
  std::array<ibv_sge, kMostTogether> parts{};
  std::array<ibv_send_wr, kMostTogether> requests{};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Move& move = moves[i];
    parts[i] = {reinterpret_cast<std::uintptr_t>(move.local), move.bytes, move.key};
    ibv_send_wr& request = requests[i];
    request.wr_id = move.id;
    request.sg_list = &parts[i];
    request.num_sge = 1;
    request.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    request.wr.rdma.remote_addr = move.remote;
    request.wr.rdma.rkey = move.remote_key;
    request.next = i + 1 < moves.size() ? &requests[i + 1] : nullptr;
    bytes += move.bytes;
  }
  requests[moves.size() - 1].send_flags = IBV_SEND_SIGNALED;
  const Quiet quiet(*port_);
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(pair_, requests.data(), &bad); error != 0) {
    *posted = bad != nullptr ? std::size_t(bad - requests.data()) : 0;
    return error;
  }
  *posted = moves.size();
  (writes ? counts_.writes : counts_.reads) += moves.size();
  (writes ? counts_.bytes : counts_.bytes_read) += bytes;
  return 0;
}

// The writes bring their own addresses, so that a request needs no memory.
int VerbsQueuePair::post_receives(int count) {
  if (notes_ != nullptr) {
    const int error = notes_->post_receives(pair_, count);
    if (error == 0) posted_ += count;
    return error;
  }
  constexpr int kTogether = 32;
  while (count > 0) {
    const int together = std::min(count, kTogether);
    std::array<ibv_recv_wr, kTogether> requests{};
    for (int i = 0; i + 1 < together; ++i) requests[std::size_t(i)].next = &requests[std::size_t(i) + 1];
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair_, requests.data(), &bad); error != 0) return error;
    posted_ += together;
    count -= together;
  }
  return 0;
}

std::span<const ibv_wc> VerbsQueuePair::poll() {
  const int count = std::max(ibv_poll_cq(queue_, int(completions_.size()), completions_.data()), 0);
  counts_.completions += std::uint64_t(count);
  if (notes_ != nullptr) return translate(std::size_t(count));
  posted_ -= count;
  return {completions_.data(), std::size_t(count)};
}

// Completions that say nothing are followed by others, so that nothing said means nothing there.
std::span<const ibv_wc> VerbsQueuePair::translate(std::size_t count) {
  said_.clear();
  while (count > 0) {
    for (std::size_t i = 0; i < count; ++i) {
      posted_ -= notes_->is_counted(completions_[i]) ? 1 : 0;
      if (completions_[i].status != IBV_WC_SUCCESS) has_stopped_ = true;
      notes_->take(completions_[i], said_);
    }
    if (!said_.empty()) break;
    count = std::size_t(std::max(ibv_poll_cq(queue_, int(completions_.size()), completions_.data()), 0));
    counts_.completions += count;
  }
  is_joined_ = notes_->has_begun();
  if (is_joined_ && !has_stopped_ && notes_->has_question()) ask();
  if (said_.empty() && is_refused_.exchange(false)) {
    said_.emplace_back();
    said_.back().status = IBV_WC_GENERAL_ERR;
  }
  return said_;
}

void VerbsQueuePair::arm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (armed_ && verbs_library().get_cq_event(channel_, &queue, &context) == 0) {
    verbs_library().ack_cq_events(queue, 1);
    armed_ = false;
  }
  if (!armed_) armed_ = ibv_req_notify_cq(queue_, 0) == 0;
}

void VerbsQueuePair::ask() {
  const Quiet quiet(*port_);
  int asked = 0;
  if (notes_->post_question(pair_, &asked) == 0) posted_ += asked;
}

bool VerbsQueuePair::stop() {
  const Quiet quiet(*port_);
  has_stopped_ = true;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  return verbs_library().modify_qp(pair_, &to, IBV_QP_STATE) == 0;
}

void VerbsQueuePair::drain() {
  if (!stop()) return;
  const Deadline limit = Deadline::in_ms(kDrainMs);
  while (posted_ > 0 && !limit.passed()) {
    if (poll().empty()) ::sched_yield();
  }
}

// ---- Errors ----

std::string completion_text(ibv_wc_status status, std::uint32_t vendor_error) {
  const auto says = [&](const char* what, const char* cause) {
    return text(what, " (completion status ", int(status), ", vendor's code ", vendor_error, ")", *cause ? ": " : "",
                cause);
  };
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return says("its adapter does not answer",
                  "its process has ended, a link is down, or a switch or firewall drops RDMA packets (UDP port 4791 "
                  "for RoCE v2); ANELLO_VERBS_TIMEOUT and ANELLO_VERBS_RETRY say how long to try");
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return says("its queue pair had no receive request", "that is an error in Anello; please report it");
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return says("its adapter refused the request", "the peer closed the lane, or has a memory fault");
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return says("this adapter refused the memory of the request", "that is an error in Anello; please report it");
    case IBV_WC_LOC_QP_OP_ERR:
      return says("this adapter could not send", "the local link is down, or its address is gone");
    case IBV_WC_WR_FLUSH_ERR: return says("the queue pair had failed before", "");
    case IBV_WC_FATAL_ERR: return says("this adapter has failed", "see the kernel's log (dmesg)");
    default: return says("a request failed", "see enum ibv_wc_status");
  }
}

}  // namespace anello::transport
