#include "control/descriptor_passing.h"

#include "base/error.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello::control {
namespace {

constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5; newer than Debian 12's headers

UniqueFd open_pidfd(pid_t pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace

ssize_t send_with_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassed * sizeof(int))] = {};
  if (!descriptors.empty()) {
    const std::size_t length = descriptors.size() * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), descriptors.data(), length);
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t receive_with_descriptors(int socket, std::span<std::byte> bytes, std::vector<UniqueFd>& descriptors) {
  iovec vector{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassed * sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    descriptors.clear();
    errno = EPROTO;
    return -1;
  }
  return received;
}

PeerProcess peer_process(int unix_socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.pid, credentials.uid, true};
}

void require_same_user(int unix_socket) {
  const PeerProcess peer = peer_process(unix_socket);
  if (!peer.known || peer.uid != ::geteuid()) throw Error(ANELLO_ERR_AUTH, "it belongs to another user");
}

UniqueFd peer_death_descriptor(int unix_socket) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(unix_socket, SOL_SOCKET, kSoPeerPidfd, &fd, &length) == 0) return UniqueFd(fd);
  // For an older kernel. The process keeps its end open while it waits for us, so its number cannot belong to another
  // process.
  const PeerProcess peer = peer_process(unix_socket);
  if (!peer.known || peer.pid <= 0) return {};
  return open_pidfd(peer.pid);
}

UniqueFd own_death_descriptor() { return open_pidfd(::getpid()); }

}  // namespace anello::control
