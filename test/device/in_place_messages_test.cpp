// Messages from device to device: the receiver's device copies them out of the sender's memory, as soon as it has
// opened that. The first message of an allocation, and what cannot be opened, goes through the host.
#include "device/calls_on_devices.h"
#include "device/in_place_buffer.h"
#include "failures/judge.h"
#include "failures/rank.h"

#include <anello/stream.h>

#include "support/catch.h"

#include <cstdlib>
#include <string>
#include <thread>

#include <signal.h>

using namespace failures;
using namespace anello::test;

namespace {

constexpr std::size_t kBytes = 1'000'000;

void end(Rank& me, anello_comm_t comm) {
  me.say("on devices ", calls_on_devices(comm));
  me.check(anello_comm_destroy(comm), "destroy");
  if (is_fake_device()) me.check(device_opened() == 0, "all is closed");
  me.say("done");
}

int heard(Ranks& ranks, int rank) { return std::stoi(ranks.expect(rank, "on devices ").text.substr(11)); }

// Round a ring, in several forms. The message is shorter than the receive.
const Role ring("ring", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::string how = me.setting("how");
  const int to = (me.rank() + 1) % me.size(), from = (me.rank() + me.size() - 1) % me.size();
  void* const stream = how == "streams" ? make_stream() : nullptr;
  const Bytes before = random_bytes(kBytes + 500, 3);
  Buffer out(before), in(before);
  Bytes host(before);
  const bool on_host = how == "mixed" && me.rank() == 1;
  for (int round = 0; round < 6; ++round) {
    Bytes sent = random_bytes(kBytes, 100 * round + me.rank());
    sent.resize(kBytes + 500);
    out.put(sent);
    in.put(before);
    host = before;
    void* const into = on_host ? host.data() : in.data();
    if (stream != nullptr) {
      anello_group_begin();
      me.check(anello_send_on(out.data(), kBytes, ANELLO_BYTE, to, round, comm, stream), "send_on");
      me.check(anello_recv_on(into, kBytes + 500, ANELLO_BYTE, from, round, comm, stream), "recv_on");
      me.check(anello_group_end(), "group");
      wait_for_stream(stream);
      me.check(anello_comm_async_error(comm), "in a stream", comm);
    } else {
      anello_request_t requests[2];
      anello_status_t status{};
      me.check(anello_isend(out.data(), kBytes, ANELLO_BYTE, to, round, comm, &requests[0]), "isend");
      const int source = how == "any source" ? ANELLO_ANY_SOURCE : from;
      if (how == "late") sleep_ms(20);
      me.check(anello_irecv(into, kBytes + 500, ANELLO_BYTE, source, round, comm, &requests[1]), "irecv");
      me.check(anello_wait(&requests[1], &status), "receive", comm);
      me.check(anello_wait(&requests[0], nullptr), "send", comm);
      me.check(status.source == from && status.count == kBytes, "the status");
    }
    Bytes expected = random_bytes(kBytes, 100 * round + from);
    expected.insert(expected.end(), before.begin() + kBytes, before.end());
    me.check(on_host ? host == expected : in.holds(expected), "the message of round " + std::to_string(round));
  }
  if (stream != nullptr) destroy_stream(stream);
  end(me, comm);
});

// The sender's memory is another one for each message, and freed when the send is complete.
const Role fresh("fresh messages", [](Rank& me) {
  const anello_comm_t comm = me.create();
  Buffer in(Bytes(kBytes, 0));
  for (int round = 0; round < 20; ++round) {
    const Bytes sent = random_bytes(kBytes, round);
    if (me.rank() == 0) {
      const Buffer out(sent);
      for (int time = 0; time < 2; ++time)
        me.check(anello_send(out.data(), kBytes, ANELLO_BYTE, 1, 0, comm), "send", comm);
    } else {
      for (int time = 0; time < 2; ++time)
        me.check(anello_recv(in.data(), kBytes, ANELLO_BYTE, 0, 0, comm, nullptr), "receive", comm);
      me.check(in.holds(sent), "the message of round " + std::to_string(round));
    }
  }
  end(me, comm);
});

// The receiver's device does not copy; meanwhile the sender goes away.
const Role left("left", [](Rank& me) {
  const anello_comm_t comm = me.create();
  Buffer buffer(Bytes(kBytes, 7));
  const auto one = [&] {
    return me.rank() == 0 ? anello_send(buffer.data(), kBytes, ANELLO_BYTE, 1, 0, comm)
                          : anello_recv(buffer.data(), kBytes, ANELLO_BYTE, 0, 0, comm, nullptr);
  };
  for (int round = 0; round < 2; ++round) me.check(one(), "a message before", comm);
  anello_request_t request = ANELLO_REQUEST_NULL;
  if (me.rank() == 1) {
    me.check(anello_irecv(buffer.data(), kBytes, ANELLO_BYTE, 0, 0, comm, &request), "irecv");
    me.check(anello_barrier(comm), "barrier", comm);
    hold_device(true);
    me.say("ready");
    std::thread later;
    if (me.setting("how") == "is killed") {
      later = std::thread([] {
        sleep_ms(1500);
        hold_device(false);
      });
    }
    me.report("result", anello_wait(&request, nullptr), comm);
    if (later.joinable()) later.join();
    hold_device(false);
    anello_comm_destroy(comm);
    me.say("done");
    return;
  }
  me.check(anello_barrier(comm), "barrier", comm);
  me.hear();
  me.check(anello_isend(buffer.data(), kBytes, ANELLO_BYTE, 1, 0, comm, &request), "isend");
  sleep_ms(300);
  if (me.setting("how") == "aborts") {
    anello_comm_abort(comm, "enough");
    me.report("result", anello_wait(&request, nullptr), comm);
    anello_comm_destroy(comm);
    me.say("done");
    return;
  }
  me.say("sending");
  for (;;) sleep_ms(1000);
});

}  // namespace

TEST_CASE("messages go from device to device once the receiver has opened the sender's memory") {
  for (const char* const how : {"plain", "late", "any source", "streams"}) {
    INFO(how);
    Ranks ranks(3, "ring", "shm", {{"how", how}});
    // Of six messages out and six in, all but the first of each.
    for (int rank = 0; rank < 3; ++rank) CHECK(heard(ranks, rank) == 10);
    ranks.finish();
  }
}

TEST_CASE("a message to a rank whose buffer is on the host goes through the host") {
  Ranks ranks(3, "ring", "shm", {{"how", "mixed"}});
  CHECK(heard(ranks, 0) == 5);  // it sends to the rank with a buffer on the host
  CHECK(heard(ranks, 1) == 5);
  CHECK(heard(ranks, 2) == 10);
  ranks.finish();
}

TEST_CASE("messages out of memory that is freed and allocated anew are right") {
  Ranks ranks(2, "fresh messages", "shm");
  for (int rank = 0; rank < 2; ++rank) CHECK(heard(ranks, rank) >= 10);
  ranks.finish();
}

TEST_CASE("a receive that copies when its sender goes away ends in bounded time", "[fake]") {
  for (const char* const how : {"aborts", "is killed"}) {
    INFO(how);
    Ranks ranks(2, "left", "shm", {{"how", how}});
    ranks.expect(1, "ready");
    ranks.tell(0, "go");
    if (how == std::string("is killed")) {
      ranks.expect(0, "sending");
      ranks.signal(0, SIGKILL);
    }
    const std::string said = ranks.expect(1, "result", 10'000).text;
    INFO(said);
    // The memory of a process that was killed stays as long as it is open.
    const bool is_well = said.find("ANELLO_OK") != std::string::npos;
    CHECK(is_well == (how == std::string("is killed")));
    CHECK((is_well || said.find("rank 0") != std::string::npos));
    ranks.expect(1, "done");
    if (how == std::string("aborts")) {
      ranks.expect(0, "result");
      ranks.expect(0, "done");
    }
  }
}
