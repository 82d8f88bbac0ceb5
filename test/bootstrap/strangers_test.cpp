// Connections that have no business here, while ranks meet: nobody is harmed.
#include "base/clock.h"
#include "bootstrap/join.h"
#include "bootstrap/thread_ranks.h"
#include "bootstrap/unique_id.h"
#include "control/admission.h"
#include "control/address.h"
#include "control/door.h"

#include <catch2/catch.hpp>

#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace anello;
using namespace anello::control;
using anello::testing::Joined;
using anello::testing::join_threads;

namespace {

UniqueFd connect_to(const Address& address) {
  UniqueFd socket = start_connect(address);
  // A full backlog on a Unix socket: the listener is behind; as a stranger would, try again.
  for (int i = 0; !socket && i < 1000; ++i) {
    ::usleep(1'000);
    socket = start_connect(address);
  }
  return socket;
}

void send_all(const UniqueFd& socket, const void* bytes, std::size_t count) {
  ::send(socket.get(), bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool receive_all(const UniqueFd& socket, void* into, std::size_t count, int limit_ms = 20'000) {
  auto* at = static_cast<char*>(into);
  while (count > 0) {
    pollfd look{socket.get(), POLLIN, 0};
    if (::poll(&look, 1, limit_ms) <= 0) return false;
    const ssize_t got = ::recv(socket.get(), at, count, 0);
    if (got <= 0) return false;
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

// An id whose place waits for its ranks, and what a stranger may know of it.
struct Place {
  anello_unique_id_t id = bootstrap::make_unique_id(true);
  Address address = bootstrap::decode_id(id).reach.front();

  void all_meet() const {
    const std::vector<Joined> ranks = join_threads(3, [&](int, anello_config_t& config) { config.unique_id = &id; });
    for (const Joined& rank : ranks) {
      INFO(rank.error.text());
      CHECK(rank.job);
    }
  }
};

Digest proof_of(const Key& key, const Greeting& greeting, const Claim& claim) {
  return hmac(key, {bytes_of("anello dialler"), std::as_bytes(std::span(&greeting, 1)),
                    std::as_bytes(std::span(&claim, 1)).first(offsetof(Claim, proof))});
}

Claim claim_for(const Place& place) {
  Claim claim{};
  std::memcpy(claim.magic, "ANELLO>\n", 8);
  claim.version = kWireVersion;
  claim.job = bootstrap::decode_id(place.id).job;
  claim.purpose = Purpose::rendezvous;
  claim.from = 1;
  claim.to = -1;
  return claim;
}

// What the library writes to standard error while it lives.
class Said {
 public:
  Said() : file_(::memfd_create("said", MFD_CLOEXEC)), before_(::fcntl(2, F_DUPFD_CLOEXEC, 3)) {
    ::dup2(file_.get(), 2);
  }
  ~Said() { ::dup2(before_.get(), 2); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;
  int lines_with(const std::string& words) const {
    std::string all(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_END)), '\0');
    REQUIRE(::pread(file_.get(), all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()));
    int lines = 0;
    for (std::size_t at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) ++lines;
    return lines;
  }

 private:
  UniqueFd file_;
  UniqueFd before_;
};

}  // namespace

TEST_CASE("strangers are told of once a second at most, however many they are") {
  const Place place;
  const Said said;
  const std::int64_t start = now_ns();
  std::array<std::byte, 300> noise;
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) {
    fill_random(noise);
    strangers.push_back(connect_to(place.address));
    send_all(strangers.back(), noise.data(), noise.size());
  }
  for (const UniqueFd& stranger : strangers) {
    Greeting greeting;
    char more;
    if (receive_all(stranger, &greeting, sizeof greeting)) receive_all(stranger, &more, 1);
  }
  const auto seconds = static_cast<int>((now_ns() - start) / 1'000'000'000);
  CHECK(said.lines_with("turned away") >= 1);
  CHECK(said.lines_with("turned away") <= 1 + seconds);
  place.all_meet();
}

TEST_CASE("silence, a single byte, random bytes and 300 connections do not keep ranks from meeting") {
  const Place place;
  std::vector<UniqueFd> strangers;
  std::array<std::byte, 300> noise;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connect_to(place.address));
    REQUIRE(strangers.back());
    fill_random(noise);
    if (i % 3 == 1) send_all(strangers.back(), noise.data(), 1);
    if (i % 3 == 2) send_all(strangers.back(), noise.data(), noise.size());
    if (i % 50 == 0) strangers.back().reset();
  }
  const std::int64_t start = now_ns();
  place.all_meet();
  CHECK((now_ns() - start) / 1'000'000 < 10'000);
}

TEST_CASE("of strangers at most 64 are kept, and the oldest give way") {
  const Place place;
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 80; ++i) {
    strangers.push_back(connect_to(place.address));
    Greeting greeting;
    // One after the other, so that it is known who is oldest.
    REQUIRE(receive_all(strangers.back(), &greeting, sizeof greeting));
  }
  char byte;
  CHECK(::recv(strangers.front().get(), &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(::recv(strangers.back().get(), &byte, 1, MSG_DONTWAIT) < 0);
  int open = 0;
  for (const UniqueFd& stranger : strangers) open += ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT) < 0;
  CHECK(open == static_cast<int>(kMaxStrangers));
  place.all_meet();
}

TEST_CASE("a wrong proof is refused without an answer that would help, and the ranks meet") {
  const Place place;
  const UniqueFd stranger = connect_to(place.address);
  Greeting greeting;
  REQUIRE(receive_all(stranger, &greeting, sizeof greeting));
  Claim claim = claim_for(place);
  claim.proof = proof_of(Key{}, greeting, claim);
  send_all(stranger, &claim, sizeof claim);
  Verdict verdict;
  REQUIRE(receive_all(stranger, &verdict, sizeof verdict));
  CHECK(verdict.status == Status::refused);
  CHECK(verdict.proof == Digest{});
  char byte;
  CHECK(!receive_all(stranger, &byte, 1));
  place.all_meet();
}

TEST_CASE("a good claim is worth nothing on another connection") {
  const Place place;
  const Key key = bootstrap::decode_id(place.id).key;
  Claim recorded{};
  {
    const UniqueFd rank = connect_to(place.address);
    Greeting greeting;
    REQUIRE(receive_all(rank, &greeting, sizeof greeting));
    recorded = claim_for(place);
    recorded.proof = proof_of(key, greeting, recorded);
    send_all(rank, &recorded, sizeof recorded);
    Verdict verdict;
    REQUIRE(receive_all(rank, &verdict, sizeof verdict));
    REQUIRE(verdict.status == Status::welcome);
    // And the listener's proof is no claim: the labels differ.
    CHECK(verdict.proof != recorded.proof);
  }
  const UniqueFd replay = connect_to(place.address);
  Greeting greeting;
  REQUIRE(receive_all(replay, &greeting, sizeof greeting));
  send_all(replay, &recorded, sizeof recorded);
  Verdict verdict;
  REQUIRE(receive_all(replay, &verdict, sizeof verdict));
  CHECK(verdict.status == Status::refused);
  place.all_meet();
}

TEST_CASE("a rank of another wire version is told so, and so are all others, with both versions") {
  const Place place;
  const UniqueFd stale = connect_to(place.address);
  Greeting greeting;
  REQUIRE(receive_all(stale, &greeting, sizeof greeting));
  Claim claim = claim_for(place);
  claim.version = 99;
  claim.proof = proof_of(bootstrap::decode_id(place.id).key, greeting, claim);
  send_all(stale, &claim, sizeof claim);
  Verdict verdict;
  REQUIRE(receive_all(stale, &verdict, sizeof verdict));
  CHECK(verdict.status == Status::version);
  CHECK(verdict.version == kWireVersion);
  const std::vector<Joined> ranks =
      join_threads(2, [&](int, anello_config_t& config) { config.unique_id = &place.id; });
  for (const Joined& rank : ranks) {
    CHECK(rank.error.code() == ANELLO_ERR_VERSION);
    CHECK_THAT(rank.error.text(), Catch::Matchers::Contains("99"));
  }
}

TEST_CASE("a proved peer that sends an enormous length or nonsense ends its own creation, with nothing allocated") {
  for (const std::uint32_t length : {0xffffffffu, 64u * 1024 + 1, 16u}) {
    const Place place;
    const UniqueFd mad = connect_to(place.address);
    Greeting greeting;
    REQUIRE(receive_all(mad, &greeting, sizeof greeting));
    Claim claim = claim_for(place);
    claim.proof = proof_of(bootstrap::decode_id(place.id).key, greeting, claim);
    send_all(mad, &claim, sizeof claim);
    Verdict verdict;
    REQUIRE(receive_all(mad, &verdict, sizeof verdict));
    REQUIRE(verdict.status == Status::welcome);
    const std::uint32_t head[6] = {length, 1, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
    send_all(mad, head, sizeof head);
    char byte;
    CHECK(!receive_all(mad, &byte, 1));
    place.all_meet();
  }
}
