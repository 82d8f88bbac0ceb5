#include "transports/tcp/outflow.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace anello::transport {

bool Outflow::write(const FrameHeader& header, const std::byte* payload) {
  if (error_number_ != 0) return false;
  const std::size_t total = sizeof header + header.bytes;
  // The kernel only reads, but iovec has no const.
  auto* const head = reinterpret_cast<std::byte*>(const_cast<FrameHeader*>(&header));
  auto* const body = const_cast<std::byte*>(payload);
  const std::size_t head_gone = std::min(sent_, sizeof header);
  const std::size_t body_gone = sent_ - head_gone;
  iovec parts[2];
  int count = 0;
  if (head_gone < sizeof header) parts[count++] = {head + head_gone, sizeof header - head_gone};
  if (body_gone < header.bytes) parts[count++] = {body + body_gone, header.bytes - body_gone};
  // For little the kernel takes longer to look at a list of parts than a copy takes.
  constexpr std::size_t kLittle = 512;
  std::byte together[kLittle];
  if (count == 2 && total - sent_ <= kLittle) {
    std::memcpy(together, parts[0].iov_base, parts[0].iov_len);
    std::memcpy(together + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    parts[0] = {together, total - sent_};
    count = 1;
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<std::size_t>(count);
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
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
  blocked_ = sent_ < total;
  if (blocked_) return false;
  sent_ = 0;
  return true;
}

}  // namespace anello::transport
