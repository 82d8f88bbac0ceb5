// A receive has copied a message from where it lies, and its answer finds the lane to the sender full: the answer
// leaves as soon as there is room, also while the receiver is about something else.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <string>
#include <vector>

#include <signal.h>

using namespace failures;

namespace {

constexpr std::size_t kBytes = 100'000;
constexpr std::int64_t kAwayMs = 1500;

// Messages of one byte, on communicators that each have credit of their own.
class Bytes {
 public:
  Bytes(Rank& me, anello_comm_t comm) : me_(me), comms_(16) {
    for (anello_comm_t& each : comms_) me_.check(anello_comm_dup(comm, &each), "dup", comm);
  }
  ~Bytes() {
    for (const anello_comm_t each : comms_) anello_comm_destroy(each);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  // At most so many, until one does not leave at once: that one's request, or none.
  anello_request_t send(int most, int* sent) {
    anello_request_t request = ANELLO_REQUEST_NULL;
    for (*sent = 0; *sent < most && request == ANELLO_REQUEST_NULL; ++*sent) {
      int done = 0;
      me_.check(anello_isend(&byte_, 1, ANELLO_BYTE, 0, 1, comm_of(*sent), &request), "isend of one byte");
      me_.check(anello_test(&request, &done, nullptr), "test");
    }
    return request;
  }
  void receive(int count) {
    for (int at = 0; at < count; ++at) {
      me_.check(anello_recv(&byte_, 1, ANELLO_BYTE, 1, 1, comm_of(at), nullptr), "recv of one byte", comm_of(at));
    }
  }

 private:
  anello_comm_t comm_of(int at) const { return comms_[std::size_t(at) % comms_.size()]; }

  Rank& me_;
  std::vector<anello_comm_t> comms_;
  char byte_ = 1;
};

// Rank 0 offers and is stopped; rank 1 fills the lane to it, receives if all of the messages that it was told have
// left, and stays away.
const Role answered("answered", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const Memory mapped(kBytes, true), into(kBytes, false);
  const auto receive = [&] {
    me.check(anello_recv(into.as<void>(), kBytes, ANELLO_BYTE, 0, 5, comm, nullptr), "recv", comm);
  };
  {
    Bytes bytes(me, comm);
    for (int round = 0; round < 30; ++round) {
      if (me.rank() == 0) me.check(anello_send(mapped.as<void>(), kBytes, ANELLO_BYTE, 1, 5, comm), "send", comm);
      if (me.rank() == 1) receive();
      me.check(anello_barrier(comm), "barrier", comm);
      sleep_ms(3);  // until the region is mapped
    }
    for (std::string told = me.hear(); told != "end"; told = me.hear()) {
      anello_request_t request = ANELLO_REQUEST_NULL;
      if (me.rank() == 0) {
        me.check(anello_isend(mapped.as<void>(), kBytes, ANELLO_BYTE, 1, 5, comm, &request), "isend", comm);
        sleep_ms(2);
        me.say("offered");
        me.hear();  // stopped meanwhile
        me.check(anello_wait(&request, nullptr), "wait", comm);
        me.say("answered");
        bytes.receive(std::stoi(me.hear()));
      } else {
        int sent = 0;
        request = bytes.send(std::stoi(told), &sent);
        const bool all_left = request == ANELLO_REQUEST_NULL;
        if (all_left) receive();
        me.say(all_left ? "sent " : "full ", sent);
        me.hear();  // away
        if (!all_left) me.check(anello_wait(&request, nullptr), "wait", comm);
        if (!all_left) receive();
      }
      me.check(anello_barrier(comm), "barrier", comm);
      me.say("again");
    }
  }
  anello_comm_destroy(comm);
});

struct Filled {
  int sent;
  bool all_left;
  std::int64_t waited_ms;  // from when rank 0 went on to its send's end, rank 1 being away
};

Filled fill_lane(Ranks& job, int messages) {
  job.tell(0, "offer");
  job.expect(0, "offered");
  job.signal(0, SIGSTOP);
  sleep_ms(2);
  job.tell(1, std::to_string(messages));
  const Line said = job.next(1);
  Filled filled{std::stoi(said.text.substr(5)), said.begins("sent "), 0};
  const std::int64_t from_ns = job.signal(0, SIGCONT);
  job.tell(0, "go on");
  if (filled.all_left) {
    try {
      filled.waited_ms = (job.expect(0, "answered", kAwayMs).time_ns - from_ns) / 1'000'000;
    } catch (const Trouble&) {
      filled.waited_ms = kAwayMs;
    }
  }
  job.tell(1, "come back");
  if (!filled.all_left || filled.waited_ms == kAwayMs) job.expect(0, "answered");
  job.tell(0, std::to_string(filled.sent));
  job.expect_all("again");
  return filled;
}

}  // namespace

TEST_CASE("an answer that found the lane full leaves while its rank is away") {
  Ranks job(2, "answered", "shm", {{"ANELLO_STAGING", "never"}});  // however slow its machine, what is offered is taken
  // How many messages fill the lane to its last line hangs on how many went before; after a lane that was filled it is
  // the same each time. What did not leave is among those that were sent.
  constexpr int kNoLimit = 1'000'000;
  fill_lane(job, kNoLimit);
  int fills = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const Filled before = fill_lane(job, kNoLimit);
    REQUIRE_FALSE(before.all_left);
    REQUIRE(before.sent > 1000);
    const Filled filled = fill_lane(job, before.sent - 1);
    INFO(before.sent << " messages were one too many, " << filled.sent
                     << (filled.all_left ? " left" : " were too many"));
    CHECK(filled.waited_ms < kAwayMs);
    fills += filled.all_left ? 1 : 0;
    if (filled.all_left) fill_lane(job, kNoLimit);
  }
  CHECK(fills > 0);
  for (int rank = 0; rank < job.count(); ++rank) job.tell(rank, "end");
  job.finish();
}
