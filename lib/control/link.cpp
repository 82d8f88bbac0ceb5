#include "control/link.h"

#include "base/checksum.h"
#include "base/clock.h"

#include <array>
#include <cstddef>

#include <sys/socket.h>

namespace anello::control {
namespace {

struct FrameHead {
  std::uint32_t bytes;
  std::uint16_t kind;
  std::uint16_t zero;
  std::uint32_t checksum;  // of the frame's number and of these
};
static_assert(sizeof(FrameHead) == 12);
constexpr std::size_t kCodeBytes = 16;

std::uint32_t checksum_of(const FrameHead& head, std::uint64_t number) {
  return crc32c(crc32c(0, &number, sizeof number), &head, offsetof(FrameHead, checksum));
}

Digest code_of(const Key& key, const FrameHead& head, std::uint64_t number, std::string_view body) {
  return hmac(key, {std::as_bytes(std::span(&number, 1)), std::as_bytes(std::span(&head, 1)), bytes_of(body)});
}

Error changed() {
  return {
      ANELLO_ERR_CORRUPT,
      "a control message was changed in transit: the network, or the memory of a machine on the path, corrupts data"};
}

}  // namespace

Task<Frame> Link::receive() {
  FrameHead head{};
  co_await stream_->read(std::as_writable_bytes(std::span(&head, 1)));
  if (head.checksum != checksum_of(head, taken_)) throw changed();
  if (head.bytes > kMaxBody || head.zero != 0) throw Reader::corrupt();
  Frame frame;
  frame.kind = head.kind;
  frame.body.resize(head.bytes);
  co_await stream_->read(std::as_writable_bytes(std::span(frame.body)));
  std::array<std::byte, kCodeBytes> code;
  co_await stream_->read(code);
  if (!equal(code, Bytes(code_of(stream_->keys.takes, head, taken_, frame.body)).first(kCodeBytes))) throw changed();
  ++taken_;
  co_return frame;
}

void Link::send(const Frame& frame) {
  if (!stream_->open()) return;
  if (queued_.size() > kMaxQueued) {
    give_up();
    return;
  }
  FrameHead head{static_cast<std::uint32_t>(frame.body.size()), frame.kind, 0, 0};
  head.checksum = checksum_of(head, sent_);
  const Digest code = code_of(stream_->keys.sends, head, sent_++, frame.body);
  queued_.append(reinterpret_cast<const char*>(&head), sizeof head).append(frame.body);
  queued_.append(reinterpret_cast<const char*>(code.data()), kCodeBytes);
  if (draining_) return;
  // Sends as much as possible at once: this process may end before the service thread does anything else.
  const ssize_t sent = ::send(stream_->descriptor(), queued_.data(), queued_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) queued_.erase(0, static_cast<std::size_t>(sent));
  if (queued_.empty()) return;
  draining_ = true;
  service_.spawn("link", drain(shared_from_this()));
}

// Coroutines take their object as a parameter: they start later, when `this` may be gone.
Task<> Link::drain(std::shared_ptr<Link> self) {
  try {
    while (!self->queued_.empty()) {
      const std::string batch = std::move(self->queued_);
      self->queued_.clear();
      co_await self->stream_->write(std::as_bytes(std::span(batch)));
    }
  } catch (const Error&) {
    // The peer has closed its end. Its last frames, perhaps a goodbye, may lie here unread: read them before reporting
    // the end.
    self->give_up();
  }
  self->draining_ = false;
}

void Link::finish() {
  if (stream_->open()) ::shutdown(stream_->descriptor(), SHUT_WR);
}

void Link::give_up() {
  queued_.clear();
  if (stream_->open()) ::shutdown(stream_->descriptor(), SHUT_RDWR);
}

Task<> Link::flushed(std::shared_ptr<Link> self, std::int64_t ms) {
  const Deadline deadline = Deadline::in_ms(ms);
  while (self->draining_ && self->open() && !deadline.passed()) co_await sleep_ms(self->stream_->io(), 1);
}

}  // namespace anello::control
