// What a person is told of a connection that was not made.
#include "control/connect_failure.h"
#include "support/catch.h"

#include <cerrno>
#include <set>

using anello::control::Address;
using anello::control::ConnectFailure;
using anello::control::describe;
using Catch::Matchers::Contains;

TEST_CASE("each error of connecting has its address, its port, its number and a cause of its own") {
  std::set<std::string> causes;
  for (const int error : {ECONNREFUSED, ETIMEDOUT, ECONNRESET, ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL}) {
    const std::string said = describe({{Address{"", "10.1.2.3", 4100}, error, ""}});
    INFO(said);
    const std::string number = "(errno " + std::to_string(error) + "): ";
    CHECK_THAT(said, Contains("tcp://10.1.2.3:4100: connect: ") && Contains(number));
    CHECK(causes.insert(said.substr(said.find(number) + number.size())).second);
  }
}

TEST_CASE("a firewall is not suspected where there can be none") {
  CHECK_THAT(describe({{Address{"name", "", 0}, ECONNREFUSED, ""}}), !Contains("firewall"));
  CHECK_THAT(describe({{Address{"", "10.1.2.3", 4100}, ENETUNREACH, ""}}), !Contains("firewall"));
  CHECK_THAT(describe({{Address{"", "10.1.2.3", 4100}, ECONNRESET, "connected, but the connection was closed"}}),
             !Contains("firewall"));
}

TEST_CASE("a link-local address without a scope is told from a route that discards") {
  CHECK_THAT(describe({{Address{"", "fe80::1", 4100}, EINVAL, ""}}),
             Contains("tcp://[fe80::1]:4100: ") && Contains("fe80::1%eth0"));
  CHECK_THAT(describe({{Address{"", "fe80::1%eth0", 4100}, EINVAL, ""}}), Contains("blackhole"));
}

TEST_CASE("a cause that neighbours share stands once") {
  const ConnectFailure first{Address{"", "10.1.2.3", 4101}, ECONNREFUSED, ""};
  const ConnectFailure second{Address{"", "10.1.2.3", 4100}, ECONNREFUSED, ""};
  CHECK(
      describe({first, second}) ==
      "tcp://10.1.2.3:4101: connect: Connection refused (errno 111); tcp://10.1.2.3:4100: connect: Connection refused "
      "(errno 111): no process listens there, or a firewall rejects connections");
}
