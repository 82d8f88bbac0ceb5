// Which interfaces a person means.
#include "base/interface_filter.h"
#include "base/network_interfaces.h"
#include "support/catch.h"

using anello::InterfaceFilter;
using anello::NetworkInterface;

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

TEST_CASE("words that can mean no interface anywhere are told from those that mean none here") {
  const std::vector<NetworkInterface> here{{"lo", "127.0.0.1", true}, {"eth0", "10.1.2.3", true}, {"lo", "::1", true}};
  const auto fault = [](const char* words) { return InterfaceFilter(words).fault(); };
  CHECK(fault("eth,10.0.0.0/8,fd00::/8,10.1.2.3,^") == "");
  CHECK(fault("eth0,10.0.0.0/33") == "the prefix length of 10.0.0.0/33 is not a number from 0 to 32");
  CHECK(fault("^fd00::/129") == "the prefix length of fd00::/129 is not a number from 0 to 128");
  CHECK(fault("10.0.0.0/x") == "the prefix length of 10.0.0.0/x is not a number from 0 to 32");
  CHECK(fault("10.0.0/8") == "10.0.0/8 is not a network such as 10.1.0.0/16 or fd00::/8");
  const auto idle = [&](const char* words) { return InterfaceFilter(words).idle_words(here); };
  CHECK(idle("eth,lo,10.0.0.0/8").empty());
  CHECK(idle("eth,nope,11.0.0.0/8") == std::vector<std::string>{"nope", "11.0.0.0/8"});
  CHECK(idle("=eth") == std::vector<std::string>{"eth"});
  CHECK(idle("^docker").empty());
  CHECK(means_none("ANELLO_INTERFACE", "nope", here) ==
        "ANELLO_INTERFACE=nope: no interface has this name or address; there are lo (127.0.0.1, ::1), eth0 (10.1.2.3)");
}

TEST_CASE("the colons of an address are told from that before the port") {
  CHECK(anello::with_port("10.1.2.3", 4100) == "10.1.2.3:4100");
  CHECK(anello::with_port("alpha", 4100) == "alpha:4100");
  CHECK(anello::with_port("fe80::1%eth0", 4100) == "[fe80::1%eth0]:4100");
}
