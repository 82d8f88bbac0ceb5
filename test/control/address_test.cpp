// Sockets as listening and connecting leave them.
#include "control/address.h"
#include "support/catch.h"
#include "support/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

using namespace anello;
using namespace anello::control;
using anello::testing::congestion_of;

namespace {

bool may_use_reno() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0;
}

void await(int fd, short what) {
  pollfd interest{fd, what, 0};
  REQUIRE(::poll(&interest, 1, 5'000) == 1);
}

}  // namespace

// Under bbr even for its first moment, a connection is paced to its end.
TEST_CASE("both ends of a TCP connection begin unpaced") {
  if (!may_use_reno()) {
    WARN("SKIPPED: reno is not allowed here");
    return;
  }
  bool in_use = false;
  const UniqueFd listener = listen_at({"", "127.0.0.1", 0}, in_use);
  const UniqueFd ours = start_connect(local_address(listener.get()));
  await(listener.get(), POLLIN);
  const UniqueFd theirs(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  await(ours.get(), POLLOUT);
  REQUIRE(connect_result(ours.get()) == 0);
  CHECK(congestion_of(ours.get()) == "reno");
  CHECK(congestion_of(theirs.get()) == "reno");
}
