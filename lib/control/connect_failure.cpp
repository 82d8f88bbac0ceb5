#include "control/connect_failure.h"

#include "base/error.h"
#include "base/text.h"

#include <cerrno>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace anello::control {
namespace {

bool lacks_scope(const std::string& ip) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, ip.c_str(), &parsed) == 1 && IN6_IS_ADDR_LINKLOCAL(&parsed);
}

std::string what_happened(const ConnectFailure& failure) {
  if (!failure.what.empty()) return failure.what;
  return failure.error == ETIMEDOUT ? text("connect: no answer (errno ", ETIMEDOUT, ")")
                                    : system_text("connect", failure.error);
}

std::string likely_cause(const ConnectFailure& failure) {
  const std::string& ip = failure.address.ip;
  const bool ipv6 = ip.find(':') != std::string::npos;
  switch (failure.error) {
    case ECONNRESET:
    case EPIPE: return "what listens there is no rank of Anello, or the rank has ended";
    case ECONNREFUSED:
      return failure.address.is_unix() ? "no process listens there"
                                       : "no process listens there, or a firewall rejects connections";
    case ETIMEDOUT:
      if (!failure.what.empty()) return "what listens there is no rank of Anello, or its machine is overloaded";
      return "a firewall may drop what is sent there (ANELLO_PORT_RANGE keeps to ports that one lets through), or the "
             "machine is off";
    case ENETUNREACH: return text("this host has no route to it: ip route get ", ip);
    case EHOSTUNREACH:
      return text("no machine in its network has this address, or a firewall or router rejects: ip neigh show ", ip);
    case EACCES:
    case EPERM:
      return text("a firewall or a route of this host forbids it: sudo ", ipv6 ? "ip6tables" : "iptables",
                  " -L OUTPUT");
    case EINVAL:
      return lacks_scope(ip) ? text("a link-local address needs the name of this host's interface: ", ip, "%eth0")
                             : text("a route of this host discards what is sent there: ip ", ipv6 ? "-6 " : "",
                                    "route show type blackhole");
    default: return {};
  }
}

}  // namespace

std::string describe(const std::vector<ConnectFailure>& failures) {
  std::string all;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const std::string cause = likely_cause(failures[i]);
    const bool repeated = i + 1 < failures.size() && likely_cause(failures[i + 1]) == cause;
    all += text(i == 0 ? "" : "; ", failures[i].address.describe(), ": ", what_happened(failures[i]),
                cause.empty() || repeated ? "" : ": ", repeated ? "" : cause);
  }
  return all;
}

}  // namespace anello::control
