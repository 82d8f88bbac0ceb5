// A receiver gives back what small messages have taken of their sender's credit, whatever it does meanwhile.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

using namespace anello::test;

namespace {

// As run_ranks, over all at a time: for ranks that sleep.
std::string over_each_transport(int size, const std::function<void(const Rank&)>& body,
                                std::int64_t timeout_ms = 20'000) {
  const std::array<const char*, 3> transports{"inproc", "shm", "tcp"};
  std::array<std::string, 3> wrong;
  std::vector<std::thread> jobs;
  for (std::size_t i = 0; i < transports.size(); ++i)
    jobs.emplace_back([&, i] { wrong[i] = run_ranks(size, transports[i], body, timeout_ms); });
  for (std::thread& job : jobs) job.join();
  std::string all;
  for (std::size_t i = 0; i < transports.size(); ++i)
    if (!wrong[i].empty()) all += std::string("over ") + transports[i] + ": " + wrong[i];
  return all;
}

}  // namespace

TEST_CASE("a rank that only ever sends hears that its small messages were received") {
  CHECK(over_each_transport(
            3,
            [](const Rank& me) {
    std::vector<unsigned char> data(1024);
    const auto send = [&](std::size_t bytes, int to) {
      me.ok(anello_send(data.data(), bytes, ANELLO_BYTE, to, 0, me.comm), "send");
    };
    const auto receive = [&](std::size_t bytes, int from) {
      me.ok(anello_recv(data.data(), bytes, ANELLO_BYTE, from, 0, me.comm, nullptr), "recv");
    };
    // More than the credit in all, but never more than a little that nobody has received: rank 1 takes the message of
    // rank 0 only once rank 0 has come back from sending it.
    for (int round = 0; round < 2500; ++round) {
      if (me.rank == 0) {
        send(1024, 1);
        send(0, 2);
        // So that what rank 1 gives back is on the way no longer.
        if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      } else if (me.rank == 2) {
        receive(0, 0);
        send(0, 1);
      } else {
        receive(0, 2);
        receive(1024, 0);
      }
    }
            },
            5'000) == "");
}

TEST_CASE("what a receive finds at its rank is given back though the rank then is about something else") {
  for (const char* const transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    std::promise<void> received, sent;
    CHECK(run_ranks(2, transport, [&](const Rank& me) {
            // Of 4 KiB: together more than the credit, later ones less than any lane holds.
            constexpr int kFirst = 240, kLater = 24;
            const auto comes = [](std::promise<void>& event) {
              return event.get_future().wait_for(std::chrono::seconds(15)) == std::future_status::ready;
            };
            std::vector<unsigned char> data(4096);
            const auto send = [&] { me.ok(anello_send(data.data(), data.size(), ANELLO_BYTE, 1, 0, me.comm), "send"); };
            const auto receive = [&] {
              me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, ANELLO_ANY_SOURCE, 0, me.comm, nullptr), "recv");
            };
            if (me.rank == 0) {
              for (int i = 0; i < kFirst; ++i) send();
              me.ok(anello_send(nullptr, 0, ANELLO_BYTE, 1, 1, me.comm), "send");
              if (!comes(received)) me.report.wrong("the first messages were not received");
              for (int i = 0; i < kLater; ++i) send();
              sent.set_value();
            } else {
              me.ok(anello_recv(nullptr, 0, ANELLO_BYTE, 0, 1, me.comm, nullptr), "recv");  // behind all others
              for (int i = 0; i < kFirst; ++i) receive();
              received.set_value();
              if (!comes(sent)) me.report.wrong("sends waited for a rank that was about something else");
              for (int i = 0; i < kLater; ++i) receive();
            }
          }) == "");
  }
}
