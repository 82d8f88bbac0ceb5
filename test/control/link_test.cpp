// Frames between two processes' service threads: what was said before an end is heard, whoever ends first.
#include "base/clock.h"
#include "control/link.h"
#include "support/catch.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

namespace {

// What a link makes of what came: the code of its error, 0 where a frame was taken for right, -1 where it waits for
// more.
struct Changed {
  explicit Changed(const ServiceHold& service) : service_(service) {}

  // The bytes of frames that one end sends, under keys that only `key` tells apart.
  Task<std::string> said(std::vector<int> numbers, unsigned char key) {
    auto [near, far] = tcp_pair();
    const auto link = std::make_shared<Link>(*service_, stream_with(std::move(near), key));
    for (const int number : numbers) link->send(saying(number));
    co_await Link::flushed(link, 10'000);
    link->finish();
    std::string all;
    char part[4096];
    for (ssize_t got; (got = ::recv(far.get(), part, sizeof part, 0)) > 0;) all.append(part, std::size_t(got));
    co_return all;
  }
  // Numbers taken from these bytes until the first error, and its code.
  Task<std::pair<std::vector<int>, int>> heard(std::string bytes) {
    auto [near, far] = tcp_pair();
    const auto link = std::make_shared<Link>(*service_, stream_with(std::move(near), 1));
    if (::send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != ssize_t(bytes.size()))
      co_return std::pair(std::vector<int>{}, -2);
    ::shutdown(far.get(), SHUT_WR);
    std::vector<int> numbers;
    try {
      for (;;) numbers.push_back(Reader((co_await link->receive()).body).take<int>());
    } catch (const Error& error) {
      co_return std::pair(numbers, int(error.code()));
    }
  }

 private:
  std::shared_ptr<Stream> stream_with(UniqueFd socket, unsigned char key) const {
    auto stream = std::make_shared<Stream>(service_->io(), std::move(socket));
    std::array<std::byte, 32> bytes;
    bytes.fill(std::byte(key));
    stream->keys = {Key(bytes), Key(bytes)};
    return stream;
  }
  const ServiceHold& service_;
};

}  // namespace

TEST_CASE("a control frame that was changed, repeated, left out or put in on the way ends the link") {
  const ServiceHold service = ServiceHold::take();
  Changed changed(service);
  std::vector<std::string> wrong;
  std::atomic<bool> done{false};
  const std::vector<int> first{5}, both{5, 6}, none;
  const auto must = [&](const std::pair<std::vector<int>, int>& got, const std::vector<int>& numbers, int code,
                        const std::string& what) {
    if (got.first != numbers || got.second != code) wrong.push_back(what + ": error " + std::to_string(got.second));
  };
  const auto script = [&]() -> Task<> {
    const std::string one = co_await changed.said(first, 1);
    const std::string two = co_await changed.said(both, 1);
    const std::string other_key = co_await changed.said(first, 2);
    std::pair<std::vector<int>, int> got = co_await changed.heard(two);
    must(got, both, ANELLO_ERR_PEER_LOST, "as it was");
    got = co_await changed.heard(one + one);
    must(got, first, ANELLO_ERR_CORRUPT, "repeated");
    got = co_await changed.heard(two.substr(one.size()));
    must(got, none, ANELLO_ERR_CORRUPT, "left out");
    got = co_await changed.heard(other_key);
    must(got, none, ANELLO_ERR_CORRUPT, "put in");
    for (std::size_t bit = 0; bit < 8 * one.size(); ++bit) {
      std::string bytes = two;
      bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
      got = co_await changed.heard(std::move(bytes));
      must(got, none, ANELLO_ERR_CORRUPT, "bit " + std::to_string(bit));
    }
    done = true;
  };
  service->post([&] { service->spawn("script", script()); });
  const Deadline limit = Deadline::in_ms(60'000);
  while (!done && !limit.passed()) sched_yield();
  CHECK(done);
  CHECK(wrong == std::vector<std::string>{});
}
