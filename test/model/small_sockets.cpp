// Where MODEL_SOCKET_BYTES is set, the library's TCP sockets hold no more than about so much, so that what programs
// send is written in parts; by themselves the sockets of a loopback take more than any program sends at once. The
// library calls this function in place of the system's, with TCP_NODELAY once for each.
#include <cstdlib>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int setsockopt(int fd, int level, int name, const void* value,
                                                                 socklen_t size) noexcept {
  const char* const wanted = std::getenv("MODEL_SOCKET_BYTES");
  if (wanted != nullptr && level == IPPROTO_TCP && name == TCP_NODELAY) {
    const int bytes = std::atoi(wanted);
    ::syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, value, size));
}
