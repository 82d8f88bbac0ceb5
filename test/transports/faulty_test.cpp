#include "base/clock.h"
#include "support/catch.h"
#include "transports/conformance.h"
#include "transports/connection.h"
#include "transports/faulty_transport.h"
#include "transports/registry.h"

using namespace anello;
using namespace anello::testing;
using namespace anello::memory;
using namespace anello::transport;

namespace {

// Makes a lane of any transport; end 0 has no faults, end 1 has the plan.
Lane faulty_lane(std::string_view name, const FaultPlan& plan) {
  Lane lane;
  std::pair<UniqueFd, UniqueFd> sockets;
  if (name == "tcp") sockets = connected(false);
  for (int rank : {0, 1}) lane.keep.push_back(find_transport(name)->make({lane.arena->of(rank), "auto"}));
  lane.keep[1] = make_faulty(find_transport(name)->make({lane.arena->of(1), "auto"}), [plan](int) { return plan; });
  lane.end[0] = lane.keep[0]->open(1, 1, std::move(sockets.first));
  lane.end[1] = lane.keep[1]->open(0, 0, std::move(sockets.second));
  return lane;
}

// `from` sends `frames` frames of `bytes`, and `to` receives them. Drives both until all have arrived or both have
// failed, at most 300 ms after the last frame. Returns the number of right frames; `wrong` says what is wrong with the
// next.
struct Outcome {
  int right = 0;
  std::string wrong;
};
Outcome stream(Endpoint& from, Endpoint& to, int rank, int frames, std::size_t bytes, bool by_view) {
  Outcome outcome;
  Collector collector(to);
  collector.by_view = by_view;
  int sent = 0;
  std::vector<std::byte> payload = payload_of(rank, 0, bytes);
  for (Deadline deadline = Deadline::in_ms(300); outcome.right < frames && !deadline.passed();) {
    if (sent < frames && from.send(header_of(rank, static_cast<std::uint32_t>(sent), bytes), payload.data())) {
      payload = payload_of(rank, static_cast<std::uint32_t>(++sent), bytes);
    }
    if (collector.poll()) {
      outcome.wrong =
          difference(collector.header(), collector.payload(), rank, static_cast<std::uint32_t>(outcome.right), bytes);
      if (!outcome.wrong.empty()) break;
      ++outcome.right;
      deadline = Deadline::in_ms(300);
    }
    to.incoming();
    from.incoming();
    if (to.failure() != nullptr && from.failure() != nullptr) break;
  }
  from.detach();
  return outcome;
}

anello_result_t code_of(const Endpoint& end) { return end.failure() == nullptr ? ANELLO_OK : end.failure()->code(); }

}  // namespace

TEST_CASE("the registry lists the transports best first, and each that ranks use by default can be made here") {
  TestArena arena(2);
  std::uint32_t all = 0, by_default = 0;
  for (const Row& row : registry()) {
    CHECK(find_transport(row.name) == &row);
    CHECK(bit_of(row.name) == row.bit());
    CHECK(row.bit() > all);
    all |= row.bit();
    if (row.on == On::request) continue;  // it may need what this machine has not
    by_default |= row.bit();
    CHECK(row.why_not() == "");
    const auto made = row.make({arena.of(0), "auto"});
    REQUIRE(made != nullptr);
    CHECK(made->name() == row.name);
    CHECK((row.make({memory::Arena(), "auto"}) == nullptr) == (over_arena(row.bit()) != 0));
    CHECK(made->needs_connection() == (row.over == Over::connection));
  }
  CHECK(all == all_transports());
  CHECK(by_default == default_transports());
  CHECK(transport_names(all) == "inproc, shm, verbs, tcp");
  CHECK(transport_names(by_default) == "inproc, shm, tcp");
  CHECK(transport_names(0) == "none");
  CHECK(find_transport("carrier-pigeon") == nullptr);
}

TEST_CASE("a transport reaches a rank if it can, in either order, and otherwise says why not") {
  const Place here{.process = 1, .network = 2, .user = 3, .arena = 4, .has_arena = true, .address = {}};
  Place thread = here, process = here, other_user = here, other_host = here, unmapped = here;
  process.process = other_user.process = other_host.process = 7;
  other_user.user = other_host.network = 8;
  other_user.has_arena = other_host.has_arena = unmapped.has_arena = false;
  const auto reached = [&](const Place& there) {
    std::string names;
    for (const Row& row : registry()) {
      CHECK(row.reaches(here, there) == row.reaches(there, here));
      if (row.reaches(here, there)) {
        names += std::string(row.name) + " ";
      } else {
        CHECK(row.why_unreached(here, there).find(row.name) != std::string::npos);
      }
    }
    return names;
  };
  CHECK(reached(thread) == "inproc shm tcp ");
  CHECK(reached(process) == "shm tcp ");
  CHECK(reached(other_user) == "tcp ");
  CHECK(reached(other_host) == "tcp ");
  CHECK(reached(unmapped) == "tcp ");
}

TEST_CASE("a delayed lane that moves few bytes at a time loses nothing") {
  const std::string name = GENERATE("inproc", "shm", "tcp");
  FaultPlan plan;
  plan.delay_polls = 3;
  plan.short_bytes = 5000;
  INFO(name);
  Lane lane = faulty_lane(name, plan);
  CHECK(soak(lane, 21, 60) == "");
}

TEST_CASE("a lane cut at a received byte delivers the frames before it and fails at both ends") {
  const std::string name = GENERATE("inproc", "shm", "tcp");
  const std::size_t bytes = GENERATE(0, 100, 50'000);
  const bool by_view = GENERATE(false, true);
  const std::uint64_t frame = 40 + bytes;
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{39}, frame, frame + 40, 3 * frame - 1, 3 * frame}) {
    FaultPlan plan;
    plan.cut_received_at = at;
    INFO(name << " cut at " << at << ", frames of " << frame << ", by view " << by_view);
    Lane lane = faulty_lane(name, plan);
    const Outcome outcome = stream(*lane.end[0], *lane.end[1], 0, 5, bytes, by_view);
    CHECK(outcome.wrong == "");
    CHECK(outcome.right == static_cast<int>(at / frame));
    CHECK(code_of(*lane.end[1]) == ANELLO_ERR_PEER_LOST);
    CHECK(code_of(*lane.end[0]) == ANELLO_ERR_PEER_LOST);
  }
}

TEST_CASE("a lane cut at a sent byte delivers the frames before it and fails at both ends") {
  const std::string name = GENERATE("inproc", "shm", "tcp");
  const std::size_t bytes = GENERATE(0, 100, 50'000);
  const std::uint64_t frame = 40 + bytes;
  for (const std::uint64_t at : {std::uint64_t{0}, frame - 1, frame, 3 * frame + 39}) {
    FaultPlan plan;
    plan.cut_sent_at = at;
    INFO(name << " cut at " << at << ", frames of " << frame);
    Lane lane = faulty_lane(name, plan);
    const Outcome outcome = stream(*lane.end[1], *lane.end[0], 1, 5, bytes, false);
    CHECK(outcome.wrong == "");
    CHECK(outcome.right == static_cast<int>(at / frame));
    CHECK(code_of(*lane.end[1]) == ANELLO_ERR_PEER_LOST);
    CHECK(code_of(*lane.end[0]) == ANELLO_ERR_PEER_LOST);
  }
}

TEST_CASE("the checks of this suite see a flipped bit") {
  const std::string name = GENERATE("inproc", "shm", "tcp");
  const bool by_view = GENERATE(false, true);
  const std::size_t bytes = 20'000;
  for (const std::uint64_t at : {20'040 + 4, 20'040 + 39, 20'040 + 40, 20'040 + 20'039}) {
    FaultPlan plan;
    plan.flip_received_at = at;
    INFO(name << " flipped at " << at << ", by view " << by_view);
    Lane lane = faulty_lane(name, plan);
    const Outcome outcome = stream(*lane.end[0], *lane.end[1], 0, 3, bytes, by_view);
    CHECK(outcome.right == 1);
    CHECK(outcome.wrong != "");
    CHECK(code_of(*lane.end[1]) == ANELLO_OK);
  }
  FaultPlan plan;
  plan.flip_received_at = 20'040 + 3;
  Lane lane = faulty_lane(name, plan);
  CHECK(stream(*lane.end[0], *lane.end[1], 0, 3, bytes, by_view).right == 1);
  CHECK(code_of(*lane.end[1]) == ANELLO_ERR_CORRUPT);
}

TEST_CASE("a stalled lane delivers the frames before the stall and then nothing, without a failure") {
  const std::string name = GENERATE("inproc", "shm", "tcp");
  const bool sending = GENERATE(false, true);
  const std::size_t bytes = 1000;
  FaultPlan plan;
  (sending ? plan.stall_sent_at : plan.stall_received_at) = 2 * 1040 + 500;
  INFO(name << ", sending " << sending);
  Lane lane = faulty_lane(name, plan);
  const Outcome outcome = sending ? stream(*lane.end[1], *lane.end[0], 1, 5, bytes, false)
                                  : stream(*lane.end[0], *lane.end[1], 0, 5, bytes, false);
  CHECK(outcome.right == 2);
  CHECK(outcome.wrong == "");
  CHECK(code_of(*lane.end[0]) == ANELLO_OK);
  CHECK(code_of(*lane.end[1]) == ANELLO_OK);
}

TEST_CASE("the same seed gives the same plan, and different seeds differ") {
  bool differ = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const FaultPlan a = FaultPlan::random(seed, 1000), b = FaultPlan::random(seed, 1000);
    CHECK(a.cut_received_at == b.cut_received_at);
    CHECK(a.delay_polls == b.delay_polls);
    differ = differ || a.stall_sent_at != FaultPlan::random(seed + 1, 1000).stall_sent_at;
  }
  CHECK(differ);
}
