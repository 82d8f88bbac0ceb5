// A receiver gives back what small messages have taken of their sender's credit, whatever it does meanwhile.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <array>
#include <chrono>
#include <functional>
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
  CHECK(over_each_transport(2, [](const Rank& me) {
          using std::chrono::milliseconds;
          constexpr int kFirst = 240,
                        kLater = 24;  // of 4 KiB: together more than the credit, later ones less than any lane holds
          std::vector<unsigned char> data(4096);
          const auto send = [&] { me.ok(anello_send(data.data(), data.size(), ANELLO_BYTE, 1, 0, me.comm), "send"); };
          const auto receive = [&] {
            me.ok(anello_recv(data.data(), data.size(), ANELLO_BYTE, ANELLO_ANY_SOURCE, 0, me.comm, nullptr), "recv");
          };
          if (me.rank == 0) {
            for (int i = 0; i < kFirst; ++i) send();
            me.ok(anello_send(nullptr, 0, ANELLO_BYTE, 1, 1, me.comm), "send");
            std::this_thread::sleep_for(milliseconds(500));
            const auto begin = std::chrono::steady_clock::now();
            for (int i = 0; i < kLater; ++i) send();
            if (std::chrono::steady_clock::now() - begin > milliseconds(1000))
              me.report.wrong("sends waited for a rank that slept");
          } else {
            me.ok(anello_recv(nullptr, 0, ANELLO_BYTE, 0, 1, me.comm, nullptr), "recv");  // behind all others
            for (int i = 0; i < kFirst; ++i) receive();
            std::this_thread::sleep_for(milliseconds(2500));
            for (int i = 0; i < kLater; ++i) receive();
          }
        }) == "");
}
