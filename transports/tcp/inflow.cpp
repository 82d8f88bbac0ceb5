#include "transports/tcp/inflow.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

namespace anello::transport {
namespace {

constexpr std::size_t kHeader = sizeof(FrameHeader);
// Read while a header is awaited: several small frames at once, but little of a large payload, which would be copied
// twice.
constexpr std::size_t kEagerBytes = 16 * 1024;
// What may be asked of view: an element of any type.
constexpr std::size_t kElement = 16;
// A header here leaves its payload aligned.
constexpr std::size_t kHeaderFront = kElement - kHeader % kElement;

}  // namespace

Inflow::Inflow(int fd, std::size_t staging_bytes)
    : fd_(fd),
      staging_bytes_(staging_bytes + 64),
      staging_(static_cast<std::byte*>(::operator new[](staging_bytes_, std::align_val_t{64}))) {}

void Inflow::make_front(std::size_t offset) {
  if (begin_ == offset) return;
  if (staged() != 0) std::memmove(at(offset), at(begin_), staged());
  end_ = offset + staged();
  begin_ = offset;
}

bool Inflow::ended(long result) {
  if (result > 0) return false;
  if (result == 0) {
    ended_ = true;
  } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    ended_ = true;
    error_number_ = errno;
  }
  return true;
}

void Inflow::read_more(std::size_t bytes) {
  if (ended_) return;
  bytes = std::min(bytes, staging_bytes_ - end_);
  const ssize_t got = ::recv(fd_, at(end_), bytes, MSG_DONTWAIT);
  if (ended(got)) return;
  end_ += static_cast<std::size_t>(got);
  drained_ = static_cast<std::size_t>(got) < bytes;
}

const FrameHeader* Inflow::incoming() {
  if (current_) {
    if (consumed_ < header_.bytes) return &header_;
    current_ = false;
  }
  if (corrupt_) return nullptr;
  if (staged() < kHeader) {
    if (std::exchange(drained_, false)) return nullptr;
    make_front(kHeaderFront);
    read_more(kEagerBytes);
    if (staged() < kHeader) {
      over_ = ended_;
      return nullptr;
    }
  }
  std::memcpy(&header_, at(begin_), kHeader);
  if (header_.bytes > kMaxFrameBytes) {
    corrupt_ = true;
    return nullptr;
  }
  begin_ += kHeader;
  consumed_ = 0;
  current_ = true;
  return &header_;
}

void Inflow::advance(std::size_t bytes) {
  begin_ += bytes;
  consumed_ += bytes;
  if (consumed_ < header_.bytes) return;
  begin_ += skip_;
  skip_ = 0;
}

std::size_t Inflow::receive(std::byte* into, std::size_t bytes) {
  const std::size_t left = remaining();
  bytes = std::min(bytes, left);
  const std::size_t here = std::min(staged(), bytes);
  if (here != 0) {
    std::memcpy(into, at(begin_), here);
    advance(here);
  }
  if (here == bytes || ended_) {
    over_ = here == 0 && bytes != 0;
    return here;
  }
  // Staging is empty now. Behind the rest of the payload comes the next header: it costs no call of its own.
  const std::size_t rest = bytes - here;
  begin_ = end_ = kHeaderFront;
  const std::size_t behind = bytes < left ? 0 : rest < kEagerBytes ? kEagerBytes : kHeader;
  iovec parts[2] = {{into + here, rest}, {at(end_), behind}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = behind != 0 ? 2 : 1;
  const ssize_t got = ::recvmsg(fd_, &message, MSG_DONTWAIT);
  if (ended(got)) {
    over_ = ended_ && here == 0;
    return here;
  }
  drained_ = static_cast<std::size_t>(got) < rest + behind;
  const std::size_t direct = std::min(static_cast<std::size_t>(got), rest);
  end_ += static_cast<std::size_t>(got) - direct;
  consumed_ += direct;
  return here + direct;
}

std::span<const std::byte> Inflow::view() {
  const std::size_t left = remaining();
  std::size_t here = std::min(staged(), left);
  if (here < std::min(kElement, left)) {
    make_front(consumed_ % kElement);
    read_more(left - here + kHeader);
    here = std::min(staged(), left);
    if (here < std::min(kElement, left)) {
      over_ = ended_;
      return {};
    }
  }
  const std::size_t off = begin_ % kElement;
  if (consumed_ % kElement == 0 && off != 0) {
    std::memmove(at(begin_ - off), at(begin_), here);
    begin_ -= off;
    if (here == left) {
      skip_ += off;
    } else {
      end_ -= off;
    }
  }
  return {at(begin_), here};
}

void Inflow::consume(std::size_t bytes) { advance(std::min({bytes, remaining(), staged()})); }

bool Inflow::news() const {
  if (remaining() != 0) return false;
  return staged() >= kHeader || (ended_ && !over_);
}

bool Inflow::has_more() const {
  if (staged() != 0) return true;
  std::byte one;
  return !ended_ && ::recv(fd_, &one, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

}  // namespace anello::transport
