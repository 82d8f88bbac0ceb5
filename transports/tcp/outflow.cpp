#include "transports/tcp/outflow.h"

#include "base/uncancelled.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace anello::transport {

std::size_t Outflow::payload_sent() const {
  return sent_ <= sizeof head_ ? 0 : std::min<std::size_t>(sent_ - sizeof head_, head_.frame.bytes);
}

void Outflow::sum(const FrameHeader& header, const std::byte* payload) {
  head_.frame = header;
  head_.sealed = seals_ && header.bytes > 0 ? 1 : 0;
  head_.checksum = head_.right_checksum();
  if (head_.sealed != 0) seal_ = crc32c(head_.checksum, payload, header.bytes);
  summed_payload_ = payload;
  summed_ = true;
}

// A caller without room asks again and again, so the payload is summed only once.
bool Outflow::is_summed(const FrameHeader& header, const std::byte* payload) const {
  return summed_ && summed_payload_ == payload && std::memcmp(&head_.frame, &header, sizeof header) == 0;
}

bool Outflow::write(const FrameHeader& header, const std::byte* payload) {
  if (error_number_ != 0) return false;
  if (sent_ == 0 && !is_summed(header, payload)) sum(header, payload);
  iovec parts[3];
  int count = 0;
  std::size_t left = 0, before = 0;
  const auto add = [&](const void* from, std::size_t bytes) {
    const std::size_t gone = std::min(bytes, sent_ - std::min(sent_, before));
    before += bytes;
    if (gone == bytes) return;
    // The kernel only reads, but iovec has no const.
    parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(from)) + gone, bytes - gone};
    left += bytes - gone;
  };
  add(&head_, sizeof head_);
  add(payload, header.bytes);
  if (head_.sealed != 0) add(&seal_, sizeof seal_);
  // For few bytes the kernel takes longer to read a list of parts than a copy takes.
  constexpr std::size_t kLittle = 512;
  std::byte together[kLittle];
  if (count > 1 && left <= kLittle) {
    std::size_t at = 0;
    for (int i = 0; i < count; ++i) {
      std::memcpy(together + at, parts[i].iov_base, parts[i].iov_len);
      at += parts[i].iov_len;
    }
    parts[0] = {together, left};
    count = 1;
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<std::size_t>(count);
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const Uncancelled whole;
  ssize_t taken;
  do {
    taken = count == 1 ? ::send(fd_, parts[0].iov_base, parts[0].iov_len, kFlags) : ::sendmsg(fd_, &message, kFlags);
  } while (taken < 0 && errno == EINTR);
  if (taken < 0) {
    blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
    if (!blocked_) error_number_ = errno;
    return false;
  }
  sent_ += static_cast<std::size_t>(taken);
  blocked_ = static_cast<std::size_t>(taken) < left;
  if (blocked_) return false;
  sent_ = 0;
  summed_ = false;
  return true;
}

}  // namespace anello::transport
