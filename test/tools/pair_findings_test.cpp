// What the doctor says of two hosts of which one does not reach the other.
#include "anellorun/pair_findings.h"
#include "support/catch.h"

#include <cerrno>
#include <set>

using anellorun::MeetingPlace;
using anellorun::PairFindings;
using anellorun::Reach;
using Catch::Matchers::Contains;
using shared::Finding;
using shared::Verdict;

namespace {

const std::vector<MeetingPlace> kPlaces{{"10.1.2.4", 4711}, {"172.17.0.1", 4712}, {"127.0.0.1", 4713}};

Finding finding(int error, std::uint32_t microseconds) {
  PairFindings pairs;
  pairs.tried("alpha", "beta", kPlaces, {{error, microseconds, 0}, {ECONNREFUSED, 9, 0}, {ECONNREFUSED, 9, 0}});
  REQUIRE(pairs.findings().size() == 1);
  return pairs.findings().front();
}

}  // namespace

TEST_CASE("each error of a connection has its own words, a sentence and something to type") {
  std::set<std::string> values;
  for (const int error :
       {ETIMEDOUT, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, EACCES, EPERM, EINVAL, EADDRINUSE, ENOBUFS}) {
    const Finding found = finding(error, 3'000'000);
    INFO(found.value);
    CHECK(found.verdict == Verdict::problem);
    CHECK(found.name == "alpha to beta");
    CHECK_THAT(found.value, Contains("10.1.2.4:4711 ") && Contains("172.17.0.1: Connection refused"));
    CHECK_THAT(found.value, !Contains("127.0.0.1"));
    CHECK(found.meaning.back() == '.');
    CHECK_THAT(found.remedy, Contains("on alpha: ") || Contains("on beta: "));
    CHECK(values.insert(found.value).second);
  }
}

TEST_CASE("what a firewall says at once differs from the silence of an address that nobody has") {
  CHECK_THAT(finding(EHOSTUNREACH, 400).value, Contains("says a router or firewall after 0.4 ms"));
  CHECK_THAT(finding(EHOSTUNREACH, 1'050'000).value, Contains("says a router or firewall after 1050 ms"));
  CHECK_THAT(finding(EHOSTUNREACH, 3'100'000).value, Contains("nobody in its network answers"));
}

TEST_CASE("one place that is reached is enough, and the way back is told apart") {
  PairFindings pairs;
  pairs.tried("alpha", "beta", kPlaces, {{ETIMEDOUT, 500'000, 0}, {0, 300, 0}, {ECONNREFUSED, 9, 0}});
  pairs.tried("beta", "alpha", {{"10.1.2.3", 4711}}, {{ETIMEDOUT, 5'000'000, 0}});
  const std::vector<Finding> found = pairs.findings();
  REQUIRE(found.size() == 3);
  CHECK(found[0].verdict == Verdict::ok);
  CHECK(found[0].value == "reaches beta (172.17.0.1, 0.3 ms)");
  CHECK(found[1].verdict == Verdict::problem);
  CHECK_THAT(found[1].meaning, Contains("The other way works."));
  CHECK_THAT(found[1].remedy, Contains("on alpha: sudo iptables -I INPUT -p tcp -s 10.1.2.4 -j ACCEPT"));
}

TEST_CASE("clocks differ only beyond what the way between them hides") {
  const auto clock = [](const char* from, const char* to, std::int64_t ahead, std::uint32_t took) {
    PairFindings pairs;
    pairs.tried("alpha", "beta", {}, {});
    pairs.tried(from, to, {{"10.1.2.4", 4711}}, {{0, took, ahead}});
    return pairs.findings().back();
  };
  CHECK(clock("alpha", "beta", 90'000, 200).verdict == Verdict::ok);
  CHECK(clock("alpha", "beta", 900'000, 2'000'000).verdict == Verdict::ok);
  CHECK_THAT(clock("alpha", "beta", 2'000'000, 200).value, Contains("2000 ms ahead of alpha"));
  CHECK_THAT(clock("beta", "alpha", 2'000'000, 200).value, Contains("2000 ms behind alpha"));
}

TEST_CASE("a host with only its loopback is told from one behind a firewall") {
  PairFindings pairs;
  pairs.tried("alpha", "beta", {{"127.0.0.1", 4711}, {"::1", 4712}}, {{ECONNREFUSED, 9, 0}, {ECONNREFUSED, 9, 0}});
  const Finding found = pairs.findings().front();
  CHECK(found.verdict == Verdict::problem);
  CHECK(found.value == "beta has no address that other hosts can reach, only its loopback");
  CHECK_THAT(found.remedy, Contains("on beta: ip -br addr"));
}

TEST_CASE("a remedy is of the place's kind of address") {
  for (const auto& [source, remedy] :
       {std::pair{"fd00::3", "sudo ip6tables -I INPUT -p tcp -s fd00::3 -j ACCEPT"},
        std::pair{"10.1.2.3", "sudo ip6tables -I INPUT -p tcp --dport 30000:30100 -j ACCEPT"}}) {
    PairFindings pairs;
    pairs.tried("alpha", "beta", {{"fd00::4", 4711}}, {{ETIMEDOUT, 5'000'000, 0}});
    pairs.tried("beta", "alpha", {{source, 4711}, {"127.0.0.1", 4712}}, {{0, 300, 0}, {ECONNREFUSED, 9, 0}});
    CHECK_THAT(pairs.findings().front().value, Contains("[fd00::4]:4711 did not answer"));
    CHECK_THAT(pairs.findings().front().remedy, Contains(std::string("on beta: ") + remedy));
  }
}
