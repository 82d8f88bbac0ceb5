#include "bootstrap/pmi.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

namespace anello::bootstrap {
namespace {

constexpr std::size_t kMostBytes = 4096;  // of a line

[[noreturn]] void fail(const std::string& why) {
  throw Error(ANELLO_ERR_RENDEZVOUS, text("the launcher's key space (PMI_FD): ", why,
                                          "; MASTER_ADDR and MASTER_PORT name another place to meet"));
}

bool wait(int descriptor, short events, const Deadline& deadline) {
  pollfd asked{descriptor, events, 0};
  for (;;) {
    const int ready = ::poll(&asked, 1, static_cast<int>(std::clamp<std::int64_t>(deadline.left_ms(), 0, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail(system_text("poll", errno));
    if (deadline.passed()) return false;
  }
}

}  // namespace

std::string pmi_field(std::string_view line, std::string_view name) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (word.size() > name.size() && word.substr(0, name.size()) == name && word[name.size()] == '=')
      return std::string(word.substr(name.size() + 1));
    at = end + 1;
  }
  return {};
}

// Sends a line and returns the answer, whose command must be `answer`.
std::string Pmi::ask(const std::string& question, std::string_view answer, const Deadline& deadline) {
  const std::string line = "cmd=" + question + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    if (!wait(descriptor_, POLLOUT, deadline)) fail("the launcher takes no question");
    const ssize_t taken = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken >= 0) {
      sent += static_cast<std::size_t>(taken);
    } else if (errno != EINTR && errno != EAGAIN) {
      fail(system_text("send", errno));
    }
  }
  // Byte by byte: what comes after this line is not this rank's.
  std::string said;
  for (char byte = 0; byte != '\n';) {
    if (!wait(descriptor_, POLLIN, deadline)) {
      fail(answer == "barrier_out" ? "not all ranks came in time" : text("no answer to ", question));
    }
    const ssize_t got = ::recv(descriptor_, &byte, 1, MSG_DONTWAIT);
    if (got == 0) fail("the launcher has closed it");
    if (got < 0 && errno != EINTR && errno != EAGAIN) fail(system_text("recv", errno));
    if (got == 1 && byte != '\n') said += byte;
    if (said.size() > kMostBytes) fail("the launcher's answer has no end");
  }
  if (pmi_field(said, "cmd") != answer) fail(text("the answer to \"", question, "\" is \"", said, "\""));
  return said;
}

const std::string& Pmi::space(const Deadline& deadline) {
  if (space_.empty()) space_ = pmi_field(ask("get_my_kvsname", "my_kvsname", deadline), "kvsname");
  if (space_.empty()) fail("it has no name");
  return space_;
}

void Pmi::put(const std::string& key, const std::string& value, const Deadline& deadline) {
  const std::string question = text("put kvsname=", space(deadline), " key=", key, " value=", value);
  const std::string said = ask(question, "put_result", deadline);
  if (pmi_field(said, "rc") != "0") fail(text("it refused the key ", key, ": ", said));
}

std::string Pmi::get(const std::string& key, const Deadline& deadline) {
  const std::string said = ask(text("get kvsname=", space(deadline), " key=", key), "get_result", deadline);
  if (pmi_field(said, "rc") != "0") fail(text("it has no key ", key, ": ", said));
  return pmi_field(said, "value");
}

void Pmi::barrier(const Deadline& deadline) { ask("barrier_in", "barrier_out", deadline); }

}  // namespace anello::bootstrap
