#include "transports/tcp/inflow.h"

#include "base/uncancelled.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

namespace anello::transport {
namespace {

constexpr std::size_t kHeader = sizeof(WireHeader);
// Bytes to read while a header is awaited: several small frames at once, but little of a large payload, which would be
// copied twice.
constexpr std::size_t kEagerBytes = 16 * 1024;
// The size of the largest element, which view must deliver whole.
constexpr std::size_t kElement = 16;
// A header at this offset leaves its payload aligned.
constexpr std::size_t kHeaderFront = 0;
static_assert(kHeader % kElement == 0);
// The last bytes of a sealed payload, which are handed on only once its checksum is right.
constexpr std::size_t kWithheld = kElement;

}  // namespace

Inflow::Inflow(int fd, std::size_t staging_bytes, bool looks)
    : fd_(fd),
      looks_(looks),
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
  const Uncancelled whole;
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
  if (corrupt_ != Corrupt::no) return nullptr;
  if (staged() < kHeader) {
    if (std::exchange(drained_, false)) return nullptr;
    make_front(kHeaderFront);
    read_more(kEagerBytes);
    if (staged() < kHeader) {
      over_ = ended_;
      return nullptr;
    }
  }
  WireHeader wire;
  std::memcpy(&wire, at(begin_), kHeader);
  header_ = wire.frame;
  position_ = next_position_;
  if (looks_ && wire.checksum != wire.right_checksum()) {
    corrupt_ = Corrupt::header;
    return nullptr;
  }
  if (header_.bytes > kMaxFrameBytes || wire.sealed > 1) {
    corrupt_ = Corrupt::impossible;
    return nullptr;
  }
  begin_ += kHeader;
  consumed_ = summed_ = 0;
  checksum_ = wire.checksum;
  sealed_ = wire.sealed != 0 && header_.bytes > 0;
  checked_ = !sealed_;
  next_position_ = position_ + kHeader + header_.bytes + seal_bytes();
  current_ = true;
  return &header_;
}

// Adds the payload's bytes after those summed before.
void Inflow::sum(const std::byte* from, std::size_t bytes) {
  if (sealed_ && looks_) checksum_ = crc32c(checksum_, from, bytes);
  summed_ += bytes;
}

// Requires: the rest of the payload, and its checksum, are in staging.
bool Inflow::is_right() {
  const std::size_t left = remaining();
  sum(at(begin_ + (summed_ - consumed_)), header_.bytes - summed_);
  std::uint32_t seal;
  std::memcpy(&seal, at(begin_ + left), sizeof seal);
  return !looks_ || seal == checksum_;
}

// The number of staged payload bytes that may be handed on.
std::size_t Inflow::usable() {
  const std::size_t left = remaining();
  if (corrupt_ != Corrupt::no) return 0;
  if (checked_) return std::min(staged(), left);
  if (staged() >= left + kSealBytes) {
    checked_ = is_right();
    if (!checked_) corrupt_ = Corrupt::payload;
    return checked_ ? left : 0;
  }
  const std::size_t most = left > kWithheld ? left - kWithheld : 0;
  return std::min(staged(), most);
}

void Inflow::advance(std::size_t bytes) {
  const std::size_t summed = summed_ - consumed_;
  if (bytes > summed) sum(at(begin_ + summed), bytes - summed);
  begin_ += bytes;
  consumed_ += bytes;
  if (consumed_ < header_.bytes) return;
  begin_ += skip_ + seal_bytes();
  skip_ = 0;
}

std::size_t Inflow::receive(std::byte* into, std::size_t bytes) {
  const std::size_t left = remaining();
  bytes = std::min(bytes, left);
  std::size_t done = 0;
  const auto take_staged = [&] {
    const std::size_t here = std::min(usable(), bytes - done);
    if (here == 0) return;
    std::memcpy(into + done, at(begin_), here);
    advance(here);
    done += here;
  };
  take_staged();
  if (done == bytes || ended_ || corrupt_ != Corrupt::no) {
    over_ = ended_ && done == 0 && bytes != 0;
    return done;
  }
  const std::size_t behind_payload = seal_bytes() + (bytes < left ? 0 : kHeader);
  const std::size_t withheld = sealed_ ? std::min(left - done, kWithheld) : 0;
  const std::size_t rest = std::min(bytes - done, left - done - withheld);
  if (rest == 0) {
    make_front(consumed_ % kElement);
    read_more(withheld + behind_payload - staged() + kEagerBytes);
    take_staged();
    over_ = ended_ && done == 0;
    return done;
  }
  // Staging is empty now. The next header comes behind the rest of the payload, so it costs no call of its own.
  begin_ = end_ = kHeaderFront;
  const std::size_t behind = bytes < left ? 0 : rest < kEagerBytes ? kEagerBytes : withheld + behind_payload;
  iovec parts[2] = {{into + done, rest}, {at(end_), behind}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = behind != 0 ? 2 : 1;
  const Uncancelled whole;
  const ssize_t got = ::recvmsg(fd_, &message, MSG_DONTWAIT);
  if (ended(got)) {
    over_ = ended_ && done == 0;
    return done;
  }
  drained_ = static_cast<std::size_t>(got) < rest + behind;
  const std::size_t direct = std::min(static_cast<std::size_t>(got), rest);
  end_ += static_cast<std::size_t>(got) - direct;
  sum(into + done, direct);
  consumed_ += direct;
  done += direct;
  if (direct == rest && withheld != 0) take_staged();
  return done;
}

std::span<const std::byte> Inflow::view() {
  const std::size_t left = remaining();
  std::size_t here = usable();
  if (here < std::min(kElement, left)) {
    if (corrupt_ != Corrupt::no) return {};
    make_front(consumed_ % kElement);
    read_more(left + seal_bytes() - staged() + kHeader);
    here = usable();
    if (here < std::min(kElement, left)) {
      over_ = ended_ && corrupt_ == Corrupt::no;
      return {};
    }
  }
  const std::size_t off = begin_ % kElement;
  if (consumed_ % kElement == 0 && off != 0) {
    const bool ends = here == left;
    std::memmove(at(begin_ - off), at(begin_), ends ? here : staged());
    begin_ -= off;
    if (ends) {
      skip_ += off;
    } else {
      end_ -= off;
    }
  }
  return {at(begin_), here};
}

void Inflow::consume(std::size_t bytes) { advance(std::min(bytes, usable())); }

bool Inflow::news() const {
  if (remaining() != 0) return false;
  return staged() >= kHeader || (ended_ && !over_);
}

bool Inflow::has_more() const {
  if (staged() != 0) return true;
  const Uncancelled whole;
  std::byte one;
  return !ended_ && ::recv(fd_, &one, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

}  // namespace anello::transport
