// Both ends of a handshake, over a socket pair, on the service thread.
#include "base/text.h"
#include "control/admission.h"
#include "control/service.h"
#include "support/catch.h"

#include <future>

#include <sys/socket.h>

using namespace anello;
using namespace anello::control;
using Catch::Matchers::Contains;

namespace {

const Key kKey = key_from("test", bytes_of("the job's secret"));
const Key kOther = key_from("test", bytes_of("another"));

Credentials credentials() {
  Credentials mine;
  mine.job.fill(std::byte{7});
  mine.key = kKey;
  mine.purpose = Purpose::lane;
  mine.from = 3;
  mine.to = 5;
  return mine;
}

struct Ended {
  Error dialler;  // ANELLO_OK: in
  Error listener;
  Claim claim{};
};

struct Handshake {
  std::promise<void> dialled, listened;
  Ended ended;

  static Task<> dial(std::shared_ptr<Handshake> self, std::shared_ptr<Stream> stream, Credentials mine) {
    const TimeLimit limit(stream, 20'000);
    try {
      co_await claim(stream, mine);
    } catch (const Error& error) {
      self->ended.dialler = error;
    }
    self->dialled.set_value();
  }
  static Task<> listen(std::shared_ptr<Handshake> self, std::shared_ptr<Stream> stream,
                       std::shared_ptr<Expected> expected) {
    const TimeLimit limit(stream, 20'000);
    try {
      std::function<const Expected*(const Claim&)> find = [expected](const Claim&) { return expected.get(); };
      self->ended.claim = co_await admit(stream, std::move(find));
    } catch (const Error& error) {
      self->ended.listener = error;
    }
    stream->close();
    self->listened.set_value();
  }
};

Ended shake_hands(const Credentials& mine, std::shared_ptr<Expected> expected) {
  const ServiceHold hold = ServiceHold::take();
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  auto dialler = std::make_shared<UniqueFd>(ends[0]), listener = std::make_shared<UniqueFd>(ends[1]);
  auto handshake = std::make_shared<Handshake>();
  Service* const service = &*hold;
  hold->post([=] {
    service->spawn("dialler",
                   Handshake::dial(handshake, std::make_shared<Stream>(service->io(), std::move(*dialler)), mine));
    service->spawn("listener", Handshake::listen(
                                   handshake, std::make_shared<Stream>(service->io(), std::move(*listener)), expected));
  });
  handshake->dialled.get_future().wait();
  handshake->listened.get_future().wait();
  return handshake->ended;
}

}  // namespace

TEST_CASE("who knows the secret is let in, as what it claims to be") {
  const Ended ended = shake_hands(credentials(), std::make_shared<Expected>(Expected{kKey, true}));
  CHECK(ended.dialler.code() == ANELLO_OK);
  CHECK(ended.listener.code() == ANELLO_OK);
  CHECK((ended.claim.purpose == Purpose::lane && ended.claim.from == 3 && ended.claim.to == 5));
}

TEST_CASE("another secret is an authentication error on both sides") {
  const Ended ended = shake_hands(credentials(), std::make_shared<Expected>(Expected{kOther, false}));
  CHECK(ended.dialler.code() == ANELLO_ERR_AUTH);
  CHECK(ended.listener.code() == ANELLO_ERR_AUTH);
}

TEST_CASE("a job that is not known there is worth another try") {
  const Ended ended = shake_hands(credentials(), nullptr);
  CHECK(ended.dialler.code() == ANELLO_ERR_RENDEZVOUS);
  CHECK_THAT(ended.dialler.text(), Contains("does not know this job"));
}

TEST_CASE("two wire versions are told apart on both sides") {
  Credentials newer = credentials();
  newer.version = kWireVersion + 1;
  const Ended ended = shake_hands(newer, std::make_shared<Expected>(Expected{kKey, false}));
  CHECK(ended.dialler.code() == ANELLO_ERR_VERSION);
  CHECK_THAT(ended.dialler.text(), Contains(text("version ", kWireVersion + 1, ", the other side ", kWireVersion)));
  CHECK(ended.claim.version == kWireVersion + 1);
}

TEST_CASE("the service thread starts with the first hold, ends with the last, and comes again") {
  for (int round = 0; round < 3; ++round) {
    ServiceHold first = ServiceHold::take();
    const ServiceHold second = ServiceHold::take();
    CHECK(&*first == &*second);
    first = ServiceHold();
    std::promise<void> done;
    second->post([&] { done.set_value(); });
    CHECK(done.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  }
}

TEST_CASE("what a coroutine throws ends that coroutine and nothing else") {
  const ServiceHold hold = ServiceHold::take();
  struct Bad {
    static Task<> run() {
      throw Error(ANELLO_ERR_INTERNAL, "on purpose");
      co_return;
    }
  };
  std::promise<void> done;
  hold->post([&] { hold->spawn("bad", Bad::run()); });
  hold->post([] { throw Error(ANELLO_ERR_INTERNAL, "on purpose"); });
  hold->post([&] { done.set_value(); });
  CHECK(done.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}
