#include "transports/inproc/endpoint.h"

#include "base/text.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace anello::transport {

InprocEndpoint::InprocEndpoint(const memory::Arena& arena, int peer, int local_peer, std::shared_ptr<InprocLane> out,
                               std::shared_ptr<InprocLane> in)
    : arena_(arena), peer_(peer), local_peer_(local_peer), out_(std::move(out)), in_(std::move(in)) {}

InprocEndpoint::~InprocEndpoint() {
  detach();
  leave_gate();
  out_->sender_gone.store(true, std::memory_order_release);
  if (!in_forked_child()) arena_.wake(local_peer_);
}

bool InprocEndpoint::queue_full() const { return put_ - out_->taken.load(std::memory_order_acquire) == kQueue; }
bool InprocEndpoint::returned() const { return out_->taken.load(std::memory_order_acquire) == put_; }

void InprocEndpoint::publish() {
  out_->put.store(++put_, std::memory_order_release);
  if (put_ == 1) {
    std::atomic<std::uint64_t>& bits = arena_.inbox(local_peer_).first_use[arena_.index() / 64];
    bits.fetch_or(std::uint64_t{1} << (arena_.index() % 64), std::memory_order_release);
  }
  arena_.wake(local_peer_);
}

bool InprocEndpoint::send(const FrameHeader& header, const std::byte* payload) {
  // Comes before the check of failure_: the receiver may have taken the frame just before it left.
  if (lent_ && returned()) {
    lent_ = starved_ = false;
    return true;
  }
  if (failure_) return false;
  if (lent_) return false;
  starved_ = !flush() || queue_full();
  if (starved_) return false;
  Queued& slot = out_->queue[put_ % kQueue];
  slot.header = header;
  if (header.bytes <= kSmallBytes) {
    if (header.bytes != 0) std::memcpy(slot.small.data(), payload, header.bytes);
    publish();
    return true;
  }
  out_->payload.store(payload, std::memory_order_relaxed);
  out_->consumed.store(0, std::memory_order_relaxed);
  lent_bytes_ = header.bytes;
  lent_ = starved_ = true;
  publish();
  return false;
}

void InprocEndpoint::detach() {
  if (!lent_) return;
  while (!out_->try_enter()) std::this_thread::yield();
  const std::size_t done = out_->consumed.load(std::memory_order_relaxed);
  const std::byte* const from = out_->payload.load(std::memory_order_relaxed);
  std::memcpy(out_->spare.get() + done, from + done, lent_bytes_ - done);
  out_->payload.store(out_->spare.get(), std::memory_order_relaxed);
  out_->leave();
  lent_ = false;
  held_ = true;
}

bool InprocEndpoint::flush() {
  if (held_ && returned()) held_ = false;
  return !held_;
}

const FrameHeader* InprocEndpoint::incoming() {
  if (failure_) return nullptr;
  leave_gate();
  if (current_) {
    if (consumed_ < header_.bytes) return &header_;
    current_ = false;
    // consume has given back all other frames, but not an empty one.
    if (header_.bytes == 0) give_back();
  }
  // The flag is read first: then all frames that were put before it was set are seen below.
  const bool gone = in_->sender_gone.load(std::memory_order_acquire);
  if (in_->put.load(std::memory_order_acquire) == taken_) {
    if (gone) lose();
    return nullptr;
  }
  header_ = in_->queue[taken_ % kQueue].header;
  consumed_ = 0;
  current_ = true;
  return &header_;
}

void InprocEndpoint::give_back() {
  in_->taken.store(++taken_, std::memory_order_release);
  arena_.wake(local_peer_);
}

std::span<const std::byte> InprocEndpoint::view() {
  const std::size_t left = remaining();
  if (failure_ || left == 0) return {};
  if (header_.bytes <= kSmallBytes) return {in_->queue[taken_ % kQueue].small.data() + consumed_, left};
  if (!inside_) inside_ = in_->try_enter();
  refused_ = !inside_;
  if (refused_) return {};  // the sender is taking its memory back; the next view finds the copy
  return {in_->payload.load(std::memory_order_relaxed) + consumed_, left};
}

void InprocEndpoint::consume(std::size_t bytes) {
  if (failure_ || !current_) return;
  consumed_ += std::min(bytes, remaining());
  if (inside_) in_->consumed.store(consumed_, std::memory_order_relaxed);
  leave_gate();
  if (consumed_ < header_.bytes || bytes == 0) return;
  give_back();
}

std::size_t InprocEndpoint::receive(std::byte* into, std::size_t bytes) {
  const std::span<const std::byte> here = view();
  const std::size_t part = std::min(bytes, here.size());
  if (part == 0) {
    leave_gate();
    return 0;
  }
  std::memcpy(into, here.data(), part);
  consume(part);
  return part;
}

void InprocEndpoint::leave_gate() {
  if (inside_) in_->leave();
  inside_ = false;
}

bool InprocEndpoint::before_sleep() {
  if (failure_) return false;
  leave_gate();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (starved_ && (lent_ || held_ ? returned() : !queue_full())) return true;
  if (remaining() != 0) return refused_;  // nobody announces that the gate is open again
  const std::uint64_t seen = taken_ + (current_ && header_.bytes == 0 ? 1 : 0);
  return in_->put.load(std::memory_order_relaxed) != seen || in_->sender_gone.load(std::memory_order_relaxed);
}

void InprocEndpoint::lose() {
  leave_gate();
  failure_ = Error(ANELLO_ERR_PEER_LOST, text("rank ", peer_, ", a thread of this process, closed its lane"), peer_);
  // The peer reads nothing more, so lent memory belongs to the caller again. A frame that it took completely is sent.
  if (!returned()) lent_ = held_ = false;
}

}  // namespace anello::transport
