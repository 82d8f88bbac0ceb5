#pragma once
// Passes descriptors over Unix sockets (SCM_RIGHTS) and identifies the peer. Each call makes one system call and does
// not block.
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/types.h>

namespace anello::control {

// The kernel takes at most 253 in one message.
inline constexpr std::size_t kMaxPassed = 128;

// Bytes sent, or -1 with errno. The descriptors travel with the first byte.
ssize_t send_with_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);
// Bytes received (0: closed), or -1 with errno. Received descriptors are appended, close-on-exec; more than
// kMaxPassed, or a message cut short, fail with EPROTO and close them all.
ssize_t receive_with_descriptors(int socket, std::span<std::byte> bytes, std::vector<UniqueFd>& descriptors);

struct PeerProcess {
  pid_t pid = 0;  // 0: in a process namespace that this process does not see
  uid_t uid = 0;
  bool known = false;
};
PeerProcess peer_process(int unix_socket);
// Memory is shared only with the same user's processes, whatever they have proved. Throws Error.
void require_same_user(int unix_socket);

// A descriptor that becomes readable when the process at the other end of the Unix socket ends. Empty if the kernel
// does not support it.
UniqueFd peer_death_descriptor(int unix_socket);
// The descriptor for this process.
UniqueFd own_death_descriptor();

}  // namespace anello::control
