#pragma once
// What a TCP socket does about congestion, by the kernel's word.
#include <string>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace anello::testing {

// Empty where there is no such socket.
inline std::string congestion_of(int fd) {
  char name[16] = {};
  socklen_t bytes = sizeof name;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0 ? name : "";
}

}  // namespace anello::testing
