#include "bootstrap/pmi_channel.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

namespace anello::bootstrap {

void PmiChannel::fail(const std::string& why) {
  throw Error(ANELLO_ERR_RENDEZVOUS, text("the launcher's key space (PMI_FD): ", why,
                                          "; MASTER_ADDR and MASTER_PORT name another place to meet"));
}

bool PmiChannel::wait(short events, const Deadline& deadline) const {
  pollfd asked{descriptor_, events, 0};
  for (;;) {
    const int ready = ::poll(&asked, 1, static_cast<int>(std::clamp<std::int64_t>(deadline.left_ms(), 0, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail(system_text("poll", errno));
    if (deadline.passed()) return false;
  }
}

void PmiChannel::send(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    if (!wait(POLLOUT, deadline)) fail("the launcher takes no question");
    const ssize_t taken = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(taken));
    } else if (errno != EINTR && errno != EAGAIN) {
      fail(system_text("send", errno));
    }
  }
}

std::size_t PmiChannel::receive_some(char* into, std::size_t most, const std::string& late, const Deadline& deadline) {
  for (;;) {
    if (!wait(POLLIN, deadline)) fail(late);
    const ssize_t got = ::recv(descriptor_, into, most, MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) fail("the launcher has closed it");
    if (errno != EINTR && errno != EAGAIN) fail(system_text("recv", errno));
  }
}

std::string PmiChannel::receive_line(const std::string& late, const Deadline& deadline) {
  std::string line;
  for (char byte = 0;;) {
    receive_some(&byte, 1, late, deadline);
    if (byte == '\n') return line;
    line += byte;
    if (line.size() > kMostBytes) fail("the launcher's answer has no end");
  }
}

std::string PmiChannel::receive(std::size_t bytes, const std::string& late, const Deadline& deadline) {
  std::string all(bytes, '\0');
  for (std::size_t done = 0; done < bytes;) done += receive_some(all.data() + done, bytes - done, late, deadline);
  return all;
}

}  // namespace anello::bootstrap
