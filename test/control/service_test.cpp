// The service's end, whatever its coroutines are in the middle of: AddressSanitizer sees what they touch too late.
#include "control/address.h"
#include "control/door.h"
#include "control/service.h"
#include "support/call_filter.h"
#include "support/catch.h"
#include "support/said.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace anello;
using namespace anello::control;

namespace {

// Connects, says nothing, and keeps the newest connections, until the end.
class Crowd {
 public:
  Crowd(const Address& address, int pause_us) : thread_([this, address, pause_us] { press(address, pause_us); }) {}
  ~Crowd() {
    over_.store(true);
    thread_.join();
  }

 private:
  void press(const Address& address, int pause_us) {
    std::vector<UniqueFd> kept(300);
    for (std::size_t i = 0; !over_.load(); ++i) {
      kept[i % kept.size()] = start_connect(address);
      if (pause_us > 0 || !kept[i % kept.size()]) ::usleep(static_cast<unsigned>(std::max(pause_us, 100)));
    }
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

template <class Work>
auto on(const ServiceHold& hold, Work work) {
  std::promise<decltype(work())> promise;
  hold->post([&] { promise.set_value(work()); });
  return promise.get_future().get();
}

std::int64_t processor_ms() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

}  // namespace

TEST_CASE("where no connection can be accepted the service goes on with everything else, and rests") {
  // In a thread of its own, which the filter stays with; the service thread starts from it.
  bool filtered = false, answered = true;
  std::int64_t used_ms = 0;
  std::thread([&] {
    filtered = test::forbid_system_call(SYS_accept4, EPERM);
    if (!filtered) return;
    const ServiceHold hold = ServiceHold::take();
    std::shared_ptr<Listener> listener = on(hold, [&] { return hold->door().unix_listener(); });
    const UniqueFd stranger = start_connect(listener->address());
    const std::int64_t before_ms = processor_ms();
    for (int i = 0; i < 10 && answered; ++i) {
      const auto done = std::make_shared<std::promise<void>>();
      hold->post([done] { done->set_value(); });
      answered = done->get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready;
      ::usleep(50'000);
    }
    used_ms = processor_ms() - before_ms;
    if (answered) on(hold, [&] { return listener.reset(), 0; });
  }).join();
  if (!filtered) {
    WARN("SKIPPED: this kernel has no filters of system calls");
    return;
  }
  CHECK(answered);
  CHECK(used_ms < 250);
}

TEST_CASE("who is in the middle of a handshake when the service ends has not been turned away") {
  const test::Said said;
  ServiceHold hold = ServiceHold::take();
  std::shared_ptr<Listener> listener = on(hold, [&] { return hold->door().listen({"", "127.0.0.1", 0}); });
  const UniqueFd rank = start_connect(listener->address());
  pollfd greeted{rank.get(), POLLIN, 0};
  REQUIRE(::poll(&greeted, 1, 20'000) == 1);
  on(hold, [&] { return listener.reset(), 0; });
  hold = ServiceHold();
  CHECK(said.lines_with("turned away") == 0);
}

TEST_CASE("the service ends while strangers crowd its door") {
  for (int round = 0; round < 40; ++round) {
    ServiceHold hold = ServiceHold::take();
    std::shared_ptr<Listener> listener = on(hold, [&] { return hold->door().unix_listener(); });
    // As fast as it can, or so that the door finds time to take a place away from somebody whenever one comes.
    const Crowd crowd(listener->address(), round % 2 == 0 ? 150 : 0);
    ::usleep(20'000 + 1'000 * round);
    hold->post([last = std::move(listener)] {});
    hold = ServiceHold();
  }
}
