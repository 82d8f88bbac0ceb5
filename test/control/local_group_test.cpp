// The arena's memory, the descriptors that go with it, and who is at the other end of a socket.
#include "base/error.h"
#include "control/descriptor_passing.h"
#include "control/host.h"
#include "control/local_group.h"
#include "control/secret.h"
#include "support/catch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::control;

namespace {

std::vector<UniqueFd> eventfds(int count) {
  std::vector<UniqueFd> descriptors;
  for (int i = 0; i < count; ++i) descriptors.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return descriptors;
}

UniqueFd copy(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

struct SocketPair {
  UniqueFd a, b;
  SocketPair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    a = UniqueFd(ends[0]);
    b = UniqueFd(ends[1]);
  }
};

}  // namespace

TEST_CASE("nobody can cut the shared memory, and its fixed part has pages") {
  const auto group = LocalGroup::make(4, eventfds(4), {});
  CHECK(::ftruncate(group->memory(), 4096) != 0);
  CHECK(::fcntl(group->memory(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
  struct stat about {};
  REQUIRE(::fstat(group->memory(), &about) == 0);
  CHECK(static_cast<std::size_t>(about.st_size) == group->layout().bytes());
  CHECK(static_cast<std::size_t>(about.st_blocks) * 512 >= group->layout().boards() + group->layout().board_stride());
  CHECK(static_cast<std::size_t>(about.st_blocks) * 512 < group->layout().rings());
}

TEST_CASE("a process has one mapping for a nonce while anybody uses it, and another maps the same bytes") {
  auto group = LocalGroup::make(2, eventfds(2), {});
  const std::uint64_t nonce = group->nonce();
  CHECK(LocalGroup::find(nonce) == group);
  CHECK(LocalGroup::find(nonce + 1) == nullptr);
  const auto other = LocalGroup::map(nonce, 2, ring_bytes_for(2), copy(group->memory()), eventfds(2), {});
  other->arena(1).inbox(1).state = memory::RankState::left;
  CHECK(group->arena(0).inbox(1).state == memory::RankState::left);
  group.reset();
  CHECK(LocalGroup::find(nonce) == other);
}

TEST_CASE("memory that is not what it should be is not mapped") {
  const auto group = LocalGroup::make(2, eventfds(2), {});
  CHECK_THROWS_AS(LocalGroup::map(group->nonce() + 1, 2, ring_bytes_for(2), copy(group->memory()), eventfds(2), {}),
                  Error);
  CHECK_THROWS_AS(LocalGroup::map(group->nonce(), 3, ring_bytes_for(2), copy(group->memory()), eventfds(3), {}), Error);
  const UniqueFd unsealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), static_cast<off_t>(group->layout().bytes())) == 0);
  CHECK_THROWS_AS(LocalGroup::map(group->nonce(), 2, ring_bytes_for(2), copy(unsealed.get()), eventfds(2), {}), Error);
}

TEST_CASE("memory that is not allowed is an error when it is made, not a signal later") {
  // In a child: the limit would be everybody's.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      LocalGroup::make(4, {}, {});
    } catch (const Error& error) {
      ::_exit(error.code() == ANELLO_ERR_RESOURCE ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("descriptors travel with a byte, close-on-exec, as many as are allowed") {
  const SocketPair sockets;
  const std::vector<UniqueFd> sent = eventfds(static_cast<int>(kMaxPassed));
  std::vector<int> numbers;
  for (const UniqueFd& descriptor : sent) numbers.push_back(descriptor.get());
  const std::byte mark{42};
  REQUIRE(send_with_descriptors(sockets.a.get(), {&mark, 1}, numbers) == 1);
  std::vector<UniqueFd> received;
  std::byte got{};
  REQUIRE(receive_with_descriptors(sockets.b.get(), {&got, 1}, received) == 1);
  CHECK(got == mark);
  REQUIRE(received.size() == kMaxPassed);
  const std::uint64_t one = 1;
  REQUIRE(::write(sent[7].get(), &one, sizeof one) == sizeof one);
  std::uint64_t count = 0;
  CHECK(::read(received[7].get(), &count, sizeof count) == sizeof count);
  for (const UniqueFd& descriptor : received) CHECK((::fcntl(descriptor.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("more descriptors than allowed are refused and none is kept") {
  const SocketPair sockets;
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  // By hand: our own function would not send so many.
  std::vector<int> many(kMaxPassed + 8, event.get());
  std::vector<char> control(CMSG_SPACE(many.size() * sizeof(int)));
  char byte = 'x';
  iovec vector{&byte, 1};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(many.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), many.data(), many.size() * sizeof(int));
  REQUIRE(::sendmsg(sockets.a.get(), &message, 0) == 1);
  std::vector<UniqueFd> received;
  std::byte got{};
  CHECK(receive_with_descriptors(sockets.b.get(), {&got, 1}, received) == -1);
  CHECK(errno == EPROTO);
  CHECK(received.empty());
}

TEST_CASE("the end of the process at the other end of a socket is seen") {
  const SocketPair sockets;
  const PeerProcess self = peer_process(sockets.a.get());
  CHECK((self.known && self.pid == ::getpid() && self.uid == ::geteuid()));
  // The child connects to a listener, so that the credentials are its own.
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sa_family_t family = AF_UNIX;
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&family), sizeof family) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &length) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&name), length) != 0) ::_exit(1);
    for (;;) ::pause();
  }
  const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const UniqueFd death = peer_death_descriptor(accepted.get());
  REQUIRE(death);
  pollfd look{death.get(), POLLIN, 0};
  CHECK(::poll(&look, 1, 0) == 0);
  ::kill(child, SIGKILL);
  CHECK(::poll(&look, 1, 20'000) == 1);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("HMAC-SHA256 is that of RFC 4231, and derived keys differ by label and context") {
  // Test case 1: a key of twenty 0x0b bytes, padded with zeros as HMAC does with short keys.
  std::array<std::byte, 32> key{};
  std::fill_n(key.begin(), 20, std::byte{0x0b});
  const Digest digest = hmac(Key(key), {bytes_of("Hi "), bytes_of("There")});
  CHECK((std::to_integer<int>(digest[0]) == 0xb0 && std::to_integer<int>(digest[1]) == 0x34 &&
         std::to_integer<int>(digest[30]) == 0xcf && std::to_integer<int>(digest[31]) == 0xf7));
  CHECK(!equal(derive(Key(key), "a", bytes_of("b")).bytes(), derive(Key(key), "ab", {}).bytes()));
  CHECK(!equal(derive(Key(key), "a", {}).bytes(), derive(Key(key), "b", {}).bytes()));
}
