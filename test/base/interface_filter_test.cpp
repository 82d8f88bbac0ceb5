// Which interfaces a person means.
#include "base/interface_filter.h"
#include "support/catch.h"

using anello::InterfaceFilter;

TEST_CASE("interfaces are meant by the beginnings of their names, their whole names, or all but these") {
  const auto means = [](const char* words, const char* name) {
    return InterfaceFilter(words).matches(name, "10.1.2.3");
  };
  CHECK(means("", "eth0"));
  CHECK(means("eth", "eth0"));
  CHECK(means("ib,eth", "eth0"));
  CHECK_FALSE(means("eth1", "eth0"));
  CHECK(means("eth1", "eth10"));
  CHECK_FALSE(means("=eth1", "eth10"));
  CHECK(means("=eth1,eth10", "eth10"));
  CHECK(means("^docker,lo", "eth0"));
  CHECK_FALSE(means("^docker,lo", "docker0"));
  CHECK_FALSE(means("^docker,lo", "lo"));
  CHECK(means("^=docker", "docker0"));
  CHECK_FALSE(means("^=docker0", "docker0"));
}

TEST_CASE("interfaces are meant by addresses and networks") {
  const auto means = [](const char* words, const char* ip) { return InterfaceFilter(words).matches("eth0", ip); };
  CHECK(means("10.1.2.3", "10.1.2.3"));
  CHECK_FALSE(means("10.1.2.4", "10.1.2.3"));
  CHECK(means("10.0.0.0/8", "10.1.2.3"));
  CHECK(means("10.1.2.2/31", "10.1.2.3"));
  CHECK_FALSE(means("10.1.2.0/31", "10.1.2.3"));
  CHECK(means("0.0.0.0/0", "10.1.2.3"));
  CHECK_FALSE(means("0.0.0.0/0", "fe80::1%eth0"));
  CHECK(means("fe80::/10", "fe80::1%eth0"));
  CHECK(means("fd00::/8,10.0.0.0/8", "10.1.2.3"));
  CHECK_FALSE(means("^10.0.0.0/8", "10.1.2.3"));
  for (const char* wrong : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8", "/8"}) {
    INFO(wrong);
    CHECK_FALSE(means(wrong, "10.1.2.3"));
  }
}

TEST_CASE("an interface that is named in full is known as such") {
  CHECK(InterfaceFilter("eth1").names("eth1", "10.1.2.3"));
  CHECK_FALSE(InterfaceFilter("eth1").names("eth10", "10.1.2.3"));
  CHECK(InterfaceFilter("10.1.2.3").names("eth0", "10.1.2.3"));
  CHECK_FALSE(InterfaceFilter("10.1.2.0/24").names("eth0", "10.1.2.3"));
  CHECK_FALSE(InterfaceFilter("^eth1").names("eth1", "10.1.2.3"));
}
