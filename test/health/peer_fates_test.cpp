#include "health/peer_fates.h"
#include "support/catch.h"

#include <string>

namespace {

using anello::health::PeerFates;
using anello::health::PeerLane;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kNow = 1'000'000 * kMs;

// As its test sets it.
struct Lane final : PeerLane {
  bool open = true;
  bool broken = false;
  bool socket = true;
  bool arrivals = false;
  std::uint64_t count = 0;
  std::int64_t broken_since = 0;
  std::string what;

  bool is_open() const override { return open; }
  bool is_broken() const override { return broken; }
  std::int64_t broken_since_ns() const override { return broken_since; }
  std::string trouble() const override { return what; }
  bool is_socket() const override { return socket; }
  bool has_arrivals() override { return arrivals; }
  std::uint64_t came() const override { return count; }
  void break_off() override {
    open = false;
    broken = true;
  }
};

struct Peer {
  PeerFates fates{3};
  Lane lane;
  std::string how;

  void look(std::int64_t now) {
    fates.look(now, [&](int peer) { return peer == 1 ? &lane : nullptr; });
  }
  bool is_gone(std::int64_t now, const PeerFates::Signs& signs = {}) {
    return fates.is_gone(1, &lane, signs, now, how);
  }
};

}  // namespace

TEST_CASE("a peer of which nothing is known is waited for") {
  Peer peer;
  CHECK_FALSE(peer.fates.is_any());
  CHECK(peer.fates.is_here(1));
  CHECK_FALSE(peer.is_gone(kNow));
  CHECK_FALSE(peer.fates.is_gone(2, nullptr, {}, kNow, peer.how));
}

TEST_CASE("a lost peer is waited for while its socket may still bring something") {
  Peer peer;
  peer.look(kNow);
  peer.fates.note_loss(1, "its process has ended", false, false, kNow);
  CHECK(peer.fates.of(1) == PeerFates::Fate::lost);
  CHECK_FALSE(peer.is_gone(kNow + 100 * kMs));
  SECTION("its end has come") {
    peer.lane.break_off();
    CHECK(peer.is_gone(kNow + 100 * kMs));
    CHECK(peer.how == "its process has ended");
  }
  SECTION("nothing has come for two seconds") {
    for (int ms = 100; ms <= 2100; ms += 100) peer.look(kNow + ms * kMs);
    CHECK(peer.is_gone(kNow + 2100 * kMs));
  }
  SECTION("something came a second ago") {
    for (int ms = 100; ms <= 2100; ms += 100) {
      if (ms == 1100) ++peer.lane.count;
      peer.look(kNow + ms * kMs);
    }
    CHECK_FALSE(peer.is_gone(kNow + 2100 * kMs));
  }
  SECTION("this process was stopped meanwhile, and has taken in nothing") {
    peer.look(kNow + 2100 * kMs);
    CHECK_FALSE(peer.is_gone(kNow + 2100 * kMs));
  }
  SECTION("control knows that nothing is on its way") {
    peer.fates.note_loss(1, "its host is silent", false, true, kNow + 10 * kMs);
    CHECK(peer.is_gone(kNow + 100 * kMs));
    CHECK(peer.how == "its process has ended");  // what was known first
  }
}

TEST_CASE("what a lost peer had put into shared memory is taken before it is gone") {
  Peer peer;
  peer.lane.socket = false;
  peer.lane.arrivals = true;
  peer.fates.note_loss(1, "its process has ended", false, false, kNow);
  peer.look(kNow);
  CHECK_FALSE(peer.is_gone(kNow + 10'000 * kMs));
  peer.lane.arrivals = false;
  peer.look(kNow + 1 * kMs);
  CHECK(peer.lane.broken);
  CHECK(peer.is_gone(kNow + 2 * kMs));
}

TEST_CASE("a peer that leaves is given half a second, and all that it sent before") {
  Peer peer;
  peer.fates.note_leaving(1, kNow);
  CHECK_FALSE(peer.is_gone(kNow + 100 * kMs));
  CHECK_FALSE(peer.is_gone(kNow + 600 * kMs));  // its socket has not ended
  peer.lane.socket = false;
  CHECK(peer.is_gone(kNow + 600 * kMs));
  CHECK(peer.how == "left the job");
  peer.lane.arrivals = true;
  CHECK_FALSE(peer.is_gone(kNow + 600 * kMs));
  // Its connections end, of course.
  peer.fates.note_loss(1, "closed its connection", false, false, kNow + 700 * kMs);
  CHECK(peer.fates.of(1) == PeerFates::Fate::left);
}

TEST_CASE("a peer that has left the communicator is gone for it half a second later") {
  Peer peer;
  CHECK_FALSE(peer.is_gone(kNow + 400 * kMs, {kNow}));
  CHECK(peer.is_gone(kNow + 600 * kMs, {kNow}));
  CHECK(peer.how == "destroyed this communicator");
}

TEST_CASE("a lane that breaks waits for control's account, unless another member is lost") {
  Peer peer;
  peer.lane.break_off();
  peer.lane.broken_since = kNow;
  CHECK_FALSE(peer.is_gone(kNow + 400 * kMs));
  CHECK(peer.is_gone(kNow + 400 * kMs, {0, true}));
  CHECK(peer.is_gone(kNow + 600 * kMs));
  CHECK(peer.how == "closed its connection");
  peer.lane.what = "its adapter does not answer";
  CHECK(peer.is_gone(kNow + 600 * kMs));
  CHECK(peer.how == "cannot be reached any more: its adapter does not answer");
}

// A rank that hears nothing from here gives this one up first, and leaves.
TEST_CASE("while its host is silent, control's account of it comes before what the peer said of its end") {
  Peer peer;
  SECTION("it has left the communicator") {
    CHECK_FALSE(peer.is_gone(kNow + 3000 * kMs, {kNow, false, true}));
    CHECK(peer.is_gone(kNow + 3000 * kMs, {kNow, false, false}));  // it was heard of again
    CHECK(peer.how == "destroyed this communicator");
  }
  SECTION("its lane broke") {
    peer.lane.break_off();
    peer.lane.broken_since = kNow;
    CHECK_FALSE(peer.is_gone(kNow + 3000 * kMs, {0, false, true}));
    CHECK(peer.is_gone(kNow + 3000 * kMs, {0, true, true}));
    CHECK(peer.is_gone(kNow + 3000 * kMs));
  }
  SECTION("it has left the job, as control itself says") {
    peer.lane.socket = false;
    peer.fates.note_leaving(1, kNow);
    CHECK(peer.is_gone(kNow + 600 * kMs, {0, false, true}));
  }
  SECTION("it is lost") {
    peer.fates.note_loss(1, "its host has said nothing for 2.0 s", false, true, kNow + 3000 * kMs);
    CHECK(peer.is_gone(kNow + 3001 * kMs, {kNow, false, true}));
    CHECK(peer.how == "its host has said nothing for 2.0 s");
  }
}

TEST_CASE("a peer that could not be reached is here again when its lane comes") {
  Peer peer;
  peer.fates.note_loss(1, "no connection to it could be made", true, false, kNow);
  CHECK_FALSE(peer.fates.takes_nothing(1));
  peer.fates.note_lane(1);
  CHECK(peer.fates.is_here(1));
  CHECK(peer.fates.loss_of(1) == nullptr);
  peer.fates.note_loss(1, "its process has ended", false, false, kNow);
  CHECK(peer.fates.takes_nothing(1));
  peer.fates.note_lane(1);  // on its way when it ended
  CHECK_FALSE(peer.fates.is_here(1));
}

TEST_CASE("of several losses the first that control told of is named, among the members") {
  PeerFates fates(4);
  const auto all = [](int) { return true; };
  CHECK(fates.first_lost(all) == -1);
  CHECK(fates.first_here() == 0);
  fates.note_loss(3, "it could not be reached", true, false, kNow);
  fates.note_loss(2, "first", false, false, kNow);
  fates.note_loss(0, "second", false, false, kNow);
  CHECK(fates.first_lost(all) == 2);
  CHECK(fates.first_lost([](int peer) { return peer != 2; }) == 0);
  CHECK(fates.first_here() == 1);
}
