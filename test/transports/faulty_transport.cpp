#include "transports/faulty_transport.h"

#include "base/text.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace anello::testing {
namespace {

using transport::Endpoint;
using transport::FrameHeader;
using transport::Transport;

constexpr std::uint64_t kHeader = sizeof(FrameHeader);

class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, int peer, const FaultPlan& plan)
      : inner_(std::move(inner)), peer_(peer), plan_(plan) {}

  bool send(const FrameHeader& header, const std::byte* payload) override {
    if (failed()) return false;
    if (held_ && !flush()) return false;
    return push(header, payload);
  }
  bool mid_frame() const override { return !held_ && (offered_ > 0 || (inner_ && inner_->mid_frame())); }

  void detach() override {
    if (!mid_frame()) return;
    if (inner_ && inner_->mid_frame()) {
      inner_->detach();
      end_of_sent_frame(header_.bytes);
      return;
    }
    // No byte of the frame has reached the inner lane yet.
    spare_.assign(payload_, payload_ + header_.bytes);
    held_ = true;
  }

  bool flush() override {
    if (failed()) return false;
    if (held_ && push(header_, spare_.data())) held_ = false;
    return !held_ && (!inner_ || inner_->flush());
  }
  std::size_t on_the_way() override { return inner_ ? inner_->on_the_way() : 0; }

  const FrameHeader* incoming() override {
    if (failed() || stalled()) return nullptr;
    if (current_ != nullptr && remaining() > 0) return current_;
    if (current_ != nullptr) received_ = frame_end_;
    current_ = nullptr;
    if (cut_before(received_ + 1)) return nullptr;
    // A second call of the inner incoming() would move on from an empty frame.
    if (waiting_ == nullptr) waiting_ = inner_->incoming();
    if (waiting_ == nullptr || waited_to_receive_++ < plan_.delay_polls) return nullptr;
    if (cut_before(received_ + kHeader) || (plan_.stall_received_at < received_ + kHeader)) return nullptr;
    waited_to_receive_ = 0;
    arrived_ = *waiting_;
    waiting_ = nullptr;
    frame_end_ = received_ + kHeader + arrived_.bytes;
    if (flips(received_, kHeader)) {
      const std::uint64_t at = plan_.flip_received_at - received_;
      if (at < sizeof arrived_.bytes) {
        failure_ = Error(ANELLO_ERR_CORRUPT, text("rank ", peer_, " sent an impossible frame (planned)"), peer_);
        return nullptr;
      }
      reinterpret_cast<std::byte*>(&arrived_)[at] ^= std::byte{1};
    }
    received_ += kHeader;
    current_ = &arrived_;
    return current_;
  }

  std::size_t remaining() const override { return current_ != nullptr && inner_ ? inner_->remaining() : 0; }

  std::size_t receive(std::byte* into, std::size_t bytes) override {
    if (failed() || current_ == nullptr) return 0;
    const std::size_t may = allowed(std::min(bytes, remaining()), 1);
    if (may == 0) return 0;
    const std::size_t got = inner_->receive(into, may);
    if (flips(received_, got)) into[plan_.flip_received_at - received_] ^= std::byte{1};
    received_ += got;
    return got;
  }

  std::span<const std::byte> view() override {
    if (failed() || current_ == nullptr) return {};
    std::span<const std::byte> here = inner_->view();
    const std::size_t may = allowed(here.size(), 16);
    if (failed()) return {};
    if (may < 16 && may < remaining()) {
      // A view may not be this short, so only a copy can take the bytes before a cut.
      inner_->consume(0);
      if (plan_.cut_received_at != kNever && may > 0 && may < here.size()) cut();
      return {};
    }
    here = here.first(may);
    if (!flips(received_, here.size())) return here;
    // The flipped bytes need memory of their own, because a view may be the peer's buffer.
    flipped_.resize(here.size() / 16 + 1);
    auto* const copy = reinterpret_cast<std::byte*>(flipped_.data());
    std::memcpy(copy, here.data(), here.size());
    copy[plan_.flip_received_at - received_] ^= std::byte{1};
    return {copy, here.size()};
  }

  void consume(std::size_t bytes) override {
    if (failed() || current_ == nullptr) return;
    received_ += std::min(bytes, remaining());
    inner_->consume(bytes);
  }

  const Error* failure() const override {
    if (failure_) return &failure_;
    return inner_ ? inner_->failure() : nullptr;
  }
  int descriptor() const override { return inner_ ? inner_->descriptor() : -1; }
  bool must_be_polled() const override { return inner_ && inner_->must_be_polled(); }
  bool wants_room() const override { return inner_ && inner_->wants_room(); }
  bool before_sleep() override {
    if (failed() || stalled()) return false;
    // No one else announces bytes that this end holds back.
    const bool withheld = sending_withheld_ || waited_to_receive_ > 0 || (plan_.short_bytes != 0 && remaining() > 0);
    return inner_->before_sleep() || withheld;
  }

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };

  bool failed() const { return failure_ || !inner_; }
  bool stalled() const { return received_ >= plan_.stall_received_at; }
  bool flips(std::uint64_t from, std::uint64_t count) const {
    return plan_.flip_received_at >= from && plan_.flip_received_at - from < count;
  }

  // Breaks the lane if the planned byte lies before position `end` of the received stream.
  bool cut_before(std::uint64_t end) {
    if (plan_.cut_received_at >= end) return false;
    cut();
    return true;
  }
  void cut() {
    failure_ = Error(ANELLO_ERR_PEER_LOST, text("the lane to rank ", peer_, " was cut (planned)"), peer_);
    // The inner lane may still use the caller's payload; detach releases it.
    inner_->detach();
    inner_.reset();
    current_ = waiting_ = nullptr;
    offered_ = 0;
  }

  // Returns how many of `bytes` may be received now.
  std::size_t allowed(std::size_t bytes, std::size_t least) {
    if (bytes == 0 || stalled()) return 0;
    if (plan_.short_bytes != 0) bytes = std::min(bytes, (plan_.short_bytes + least - 1) / least * least);
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, plan_.stall_received_at - received_));
    if (plan_.cut_received_at - received_ >= bytes) return bytes;
    const auto until = static_cast<std::size_t>(plan_.cut_received_at - received_);
    if (until == 0) cut();
    return until;
  }

  bool push(const FrameHeader& header, const std::byte* payload) {
    header_ = header;
    payload_ = payload;
    const std::uint64_t total = kHeader + header.bytes;
    sending_withheld_ = false;
    if (sent_ + total > plan_.stall_sent_at) {
      offered_ = 1;
      return false;
    }
    if (sent_ + total > plan_.cut_sent_at) {
      cut();
      return false;
    }
    if (offered_ < total && waited_to_send_++ >= plan_.delay_polls) {
      offered_ = plan_.short_bytes == 0 ? total : std::min<std::uint64_t>(total, offered_ + plan_.short_bytes);
    }
    sending_withheld_ = offered_ < total;
    if (sending_withheld_) return false;
    if (!inner_->send(header, payload)) return false;
    end_of_sent_frame(header.bytes);
    return true;
  }

  void end_of_sent_frame(std::size_t bytes) {
    sent_ += kHeader + bytes;
    offered_ = 0;
    waited_to_send_ = 0;
  }

  std::unique_ptr<Endpoint> inner_;
  int peer_;
  FaultPlan plan_;
  Error failure_;
  // Sending: bytes of whole frames that the inner lane has, and bytes of the frame under way that count as taken.
  std::uint64_t sent_ = 0;
  std::uint64_t offered_ = 0;
  int waited_to_send_ = 0;
  bool sending_withheld_ = false;
  FrameHeader header_;
  const std::byte* payload_ = nullptr;
  std::vector<std::byte> spare_;
  bool held_ = false;
  // Receiving: bytes that the caller has received, and the current frame.
  std::uint64_t received_ = 0;
  std::uint64_t frame_end_ = 0;
  int waited_to_receive_ = 0;
  const FrameHeader* waiting_ = nullptr;
  FrameHeader arrived_;
  const FrameHeader* current_ = nullptr;
  std::vector<Unit> flipped_;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, std::function<FaultPlan(int)> plan_of, const MemoryFaults& faults)
      : inner_(std::move(inner)), plan_of_(std::move(plan_of)) {
    if (transport::RemoteMemory* const memory = inner_->remote_memory())
      memory_ = std::make_unique<FaultyMemory>(*memory, faults);
  }
  std::string_view name() const override { return inner_->name(); }
  bool needs_connection() const override { return inner_->needs_connection(); }
  std::unique_ptr<Endpoint> open(int peer, int local_peer, transport::Connections connections) override {
    return make_faulty(inner_->open(peer, local_peer, std::move(connections)), peer, plan_of_(peer));
  }
  transport::RemoteMemory* remote_memory() override { return memory_.get(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::function<FaultPlan(int)> plan_of_;
  std::unique_ptr<FaultyMemory> memory_;
};

}  // namespace

FaultPlan FaultPlan::random(std::uint64_t seed, std::uint64_t bytes) {
  std::mt19937_64 random(seed);
  const std::uint64_t at = random() % std::max<std::uint64_t>(bytes, 1);
  FaultPlan plan;
  switch (random() % 7) {
    case 0: plan.delay_polls = static_cast<int>(random() % 50 + 1); break;
    case 1: plan.short_bytes = random() % 1000 + 1; break;
    case 2: plan.cut_sent_at = at; break;
    case 3: plan.cut_received_at = at; break;
    case 4: plan.flip_received_at = at; break;
    case 5: plan.stall_sent_at = at; break;
    default: plan.stall_received_at = at; break;
  }
  return plan;
}

std::unique_ptr<Endpoint> make_faulty(std::unique_ptr<Endpoint> inner, int peer, const FaultPlan& plan) {
  return std::make_unique<FaultyEndpoint>(std::move(inner), peer, plan);
}

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, std::function<FaultPlan(int)> plan_of,
                                       const MemoryFaults& faults) {
  return std::make_unique<FaultyTransport>(std::move(inner), std::move(plan_of), faults);
}

}  // namespace anello::testing
