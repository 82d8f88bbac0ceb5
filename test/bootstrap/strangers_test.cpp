// Connections that have no business here, while ranks meet: nobody is harmed.
#include "base/clock.h"
#include "bootstrap/join.h"
#include "bootstrap/thread_ranks.h"
#include "bootstrap/unique_id.h"
#include "control/admission.h"
#include "control/address.h"
#include "control/door.h"
#include "support/catch.h"
#include "support/said.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::control;
using anello::test::Said;
using anello::testing::join_threads;
using anello::testing::Joined;

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

// Processes of another user that connect to an abstract name as fast as they can, speak nonsense, and keep the newest
// connections.
class Flood {
 public:
  static constexpr uid_t kUser = 65534;
  Flood(int processes, const std::string& unix_name) {
    REQUIRE(connections_ != MAP_FAILED);
    for (int i = 0; i < processes; ++i) {
      flooders_.push_back(::fork());
      if (flooders_.back() == 0) flood(unix_name, *static_cast<std::atomic<long>*>(connections_));
    }
  }
  ~Flood() {
    for (const pid_t flooder : flooders_) ::kill(flooder, SIGKILL);
    for (const pid_t flooder : flooders_) ::waitpid(flooder, nullptr, 0);
    ::munmap(connections_, kShared);
  }
  // A blocking one; system calls alone.
  static int connection(const std::string& unix_name, int flags = 0) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path + 1, unix_name.data(), unix_name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + unix_name.size());
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | flags, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), length) == 0) return socket;
    ::close(socket);
    return -1;
  }
  long connections() const { return static_cast<std::atomic<long>*>(connections_)->load(); }
  bool running() const {
    return std::all_of(flooders_.begin(), flooders_.end(),
                       [](pid_t flooder) { return ::waitpid(flooder, nullptr, WNOHANG) == 0; });
  }

 private:
  // After fork: system calls alone.
  [[noreturn]] static void flood(const std::string& unix_name, std::atomic<long>& connections) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(60);
    if (::setresuid(kUser, kUser, kUser) != 0) ::_exit(1);
    int kept[900];
    std::fill(std::begin(kept), std::end(kept), -1);
    for (std::size_t i = 0;; ++i) {
      int& socket = kept[i % std::size(kept)];
      if (socket >= 0) ::close(socket);
      socket = connection(unix_name, SOCK_NONBLOCK);
      if (socket < 0) continue;
      connections.fetch_add(1);
      if (i % 2 == 0) ::send(socket, "?", 1, MSG_NOSIGNAL);
    }
  }
  static constexpr std::size_t kShared = 4096;
  void* const connections_ = ::mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::vector<pid_t> flooders_;
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

TEST_CASE("who connects as the ranks' own user keeps its place, however many come as another user") {
  if (::geteuid() != 0) {
    WARN("SKIPPED: needs root, to be another user");
    return;
  }
  const Place place;
  const UniqueFd rank = connect_to(place.address);
  Greeting greeting;
  REQUIRE(receive_all(rank, &greeting, sizeof greeting));
  const pid_t others = ::fork();
  if (others == 0) {
    ::alarm(60);
    if (::setresuid(Flood::kUser, Flood::kUser, Flood::kUser) != 0) ::_exit(1);
    for (int i = 0; i < 300; ++i) {
      const int socket = Flood::connection(place.address.unix_name);
      char first;
      if (::recv(socket, &first, 1, 0) != 1) ::_exit(2);  // it has a place; kept until the process ends
    }
    ::_exit(0);
  }
  int status = -1;
  CHECK(::waitpid(others, &status, 0) == others);
  CHECK(status == 0);
  Claim claim = claim_for(place);
  claim.proof = proof_of(bootstrap::decode_id(place.id).key, greeting, claim);
  send_all(rank, &claim, sizeof claim);
  Verdict verdict{};
  CHECK(receive_all(rank, &verdict, sizeof verdict));
  CHECK(verdict.status == Status::welcome);
}

TEST_CASE("another user of the host who floods the meeting place does not keep ranks from meeting") {
  if (::geteuid() != 0) {
    WARN("SKIPPED: needs root, to be another user");
    return;
  }
  const Place place;
  const Flood flood(3, place.address.unix_name);
  const Deadline begun = Deadline::in_ms(20'000);
  while (flood.connections() < 20'000 && !begun.passed()) ::usleep(1'000);
  CHECK(flood.connections() >= 20'000);
  const std::int64_t start = now_ns();
  place.all_meet();
  CHECK((now_ns() - start) / 1'000'000 < 3'000);
  CHECK(flood.running());
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
