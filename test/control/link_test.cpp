// Frames between two processes' service threads: what was said before an end is heard, whoever ends first.
#include "base/clock.h"
#include "control/link.h"

#include <catch2/catch.hpp>

#include <array>
#include <optional>

#include <netinet/in.h>
#include <sys/socket.h>

using namespace anello;
using namespace anello::control;

namespace {

std::array<UniqueFd, 2> tcp_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  UniqueFd ours(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(ours.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  UniqueFd theirs(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(theirs);
  return {std::move(ours), std::move(theirs)};
}

Frame saying(int number) { return Writer().put(number).frame(7); }

}  // namespace

TEST_CASE("a peer's last words are read although sending to it has failed before") {
  const ServiceHold service = ServiceHold::take();
  std::array<UniqueFd, 2> sockets = tcp_pair();
  std::atomic<int> heard{0};
  std::atomic<int> end{0};
  const auto script = [&]() -> Task<> {
    const auto here = std::make_shared<Link>(*service, std::make_shared<Stream>(service->io(), std::move(sockets[0])));
    const auto there = std::make_shared<Link>(*service, std::make_shared<Stream>(service->io(), std::move(sockets[1])));
    there->send(saying(1));
    there->send(saying(2));
    co_await Link::flushed(there, 10'000);
    there->close();
    // The first comes to a closed socket, which answers with a reset; the second fails for it.
    for (int round = 0; round < 2; ++round) {
      here->send(saying(3));
      co_await Link::flushed(here, 10'000);
      co_await sleep_ms(service->io(), 20);
    }
    try {
      for (;;) {
        const Frame frame = co_await here->receive();
        heard += Reader(frame.body).take<int>();
      }
    } catch (const Error& error) {
      end = error.code();
    }
  };
  service->post([&] { service->spawn("script", script()); });
  const Deadline limit = Deadline::in_ms(20'000);
  while (end == 0 && !limit.passed()) sched_yield();
  CHECK(heard == 3);
  CHECK(end != 0);
}
