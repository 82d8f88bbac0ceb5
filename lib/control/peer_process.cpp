#include "control/peer_process.h"

#include <cerrno>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello::control {
namespace {

constexpr std::int64_t kEndMs = 20;

}  // namespace

PeerProcess::PeerProcess(const Stream& stream) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!stream.open() || ::getsockname(stream.descriptor(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      own.ss_family != AF_UNIX)
    return;
  ucred peer{};
  length = sizeof peer;
  if (::getsockopt(stream.descriptor(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) return;
  process_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  is_here_ = process_ || errno == ESRCH;
}

Task<bool> PeerProcess::ends(asio::io_context& io) {
  if (!is_here_) co_return false;
  if (!process_) co_return true;
  const auto process = std::make_shared<Stream>(io, std::move(process_));
  const TimeLimit limit(process, kEndMs);
  try {
    co_await process->readable();
  } catch (const Error&) {
    co_return false;
  }
  co_return true;
}

}  // namespace anello::control
