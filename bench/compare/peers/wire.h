// The number of bytes that this process has sent over TCP, according to the kernel's information on its sockets: it
// checks that a row uses the transport that it claims.
#pragma once

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>

namespace compare {

// Counts the bytes sent over connections that are still open, not those that a library has closed.
inline double tcp_bytes_sent() {
  double sum = 0;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) sum += static_cast<double>(info.tcpi_bytes_sent);
  }
  closedir(directory);
  return sum;
}

}  // namespace compare
