// Compares the speed of lanes with that of their medium, in the same run: 8-byte frames there and back, and 1 MiB
// frames both ways at once. Two threads; it takes some seconds. Only ratios count: the processors' places change all
// figures.
#include "base/clock.h"
#include "transports/connection.h"
#include "transports/registry.h"
#include "transports/test_arena.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

using namespace anello;
using namespace anello::testing;
using namespace anello::memory;
using namespace anello::transport;

namespace {

// The best of several short bursts is the only figure that stays comparable while others use the machine.
constexpr int kBursts = 9;

double least(const std::function<double()>& burst) {
  double best = burst();
  for (int i = 1; i < kBursts; ++i) best = std::min(best, burst());
  return best;
}
double most(const std::function<double()>& burst) {
  return -least([&] { return -burst(); });
}

// Spins, and yields now and then in case the other thread waits for this processor.
class Patience {
 public:
  void operator()() {
    if (++spins_ % 4096 == 0) std::this_thread::yield();
  }

 private:
  unsigned spins_ = 0;
};

// Returns the nanoseconds until both bodies, each on a thread, have ended.
double timed(const std::function<void()>& left, const std::function<void()>& right) {
  std::atomic<int> ready{0};
  std::thread other([&] {
    ready.fetch_add(1);
    Patience wait;
    while (ready.load() < 2) wait();
    right();
  });
  ready.fetch_add(1);
  Patience wait;
  while (ready.load() < 2) wait();
  const std::int64_t begin = now_ns();
  left();
  other.join();
  return double(now_ns() - begin);
}

double line_crossing_ns() {
  struct alignas(128) Flag {
    std::atomic<int> value{0};
  } there, back;
  constexpr int kTrips = 2'000;
  return timed(
             [&] {
    Patience wait;
    for (int i = 1; i <= kTrips; ++i) {
      there.value.store(i, std::memory_order_release);
      while (back.value.load(std::memory_order_acquire) != i) wait();
    }
             },
             [&] {
    Patience wait;
    for (int i = 1; i <= kTrips; ++i) {
      while (there.value.load(std::memory_order_acquire) != i) wait();
      back.value.store(i, std::memory_order_release);
    }
  }) / (2.0 * kTrips);
}

// Each of two threads copies its 256 KiB to and fro in its caches. Returns bytes per nanosecond and thread.
double copy_rate() {
  constexpr std::size_t kBytes = 256 * 1024;
  constexpr int kTimes = 100;
  const auto body = [] {
    std::vector<char> a(kBytes, 1), b(kBytes, 2);
    for (int i = 0; i < kTimes; ++i) {
      std::memcpy(i % 2 ? a.data() : b.data(), i % 2 ? b.data() : a.data(), kBytes);
      asm volatile("" ::: "memory");
    }
  };
  return double(kBytes) * kTimes / timed(body, body);
}

// Sends both ways at once over a bare socket.
double socket_rate(std::size_t piece, const char* congestion) {
  auto sockets = connected(false, congestion);
  constexpr std::size_t kTotal = std::size_t{16} << 20;
  const auto body = [&](int fd) {
    std::vector<char> out(piece), in(piece);
    std::size_t sent = 0, received = 0;
    Patience wait;
    while (sent < kTotal || received < kTotal) {
      wait();
      if (sent < kTotal) {
        const ssize_t n = ::send(fd, out.data(), std::min(piece, kTotal - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) sent += static_cast<std::size_t>(n);
      }
      if (received < kTotal) {
        const ssize_t n = ::recv(fd, in.data(), piece, MSG_DONTWAIT);
        if (n > 0) received += static_cast<std::size_t>(n);
      }
    }
  };
  return double(kTotal) / timed([&] { body(sockets.first.get()); }, [&] { body(sockets.second.get()); });
}

struct Ends {
  std::shared_ptr<TestArena> arena;
  std::unique_ptr<Transport> transport[2];
  std::unique_ptr<Endpoint> end[2];
};

Ends open(const Row& row, std::size_t ring_bytes) {
  Ends ends;
  ends.arena = std::make_shared<TestArena>(2, ring_bytes);
  std::pair<UniqueFd, UniqueFd> sockets = connected(false);
  for (int rank : {0, 1}) ends.transport[rank] = row.make({ends.arena->of(rank), "auto"});
  ends.end[0] = ends.transport[0]->open(1, 1, std::move(sockets.first));
  ends.end[1] = ends.transport[1]->open(0, 0, std::move(sockets.second));
  return ends;
}

void take(Endpoint& end) {
  std::byte got[8];
  Patience wait;
  while (end.incoming() == nullptr) wait();
  while (end.remaining() > 0) end.receive(got, sizeof got);
}

// Every burst uses the same ends: the first touch of pages says nothing about a lane.
double one_way_ns(Ends& ends, int trips) {
  FrameHeader header;
  header.bytes = 8;
  const std::byte payload[8]{};
  const auto left = [&] {
    for (int i = 0; i < trips; ++i) {
      while (!ends.end[0]->send(header, payload)) {
      }
      take(*ends.end[0]);
    }
  };
  const auto right = [&] {
    for (int i = 0; i < trips; ++i) {
      take(*ends.end[1]);
      while (!ends.end[1]->send(header, payload)) {
      }
    }
  };
  return timed(left, right) / (2.0 * trips);
}

double duplex_rate(Ends& ends, int frames, bool by_view) {
  const auto body = [&](Endpoint& end) {
    FrameHeader header;
    header.bytes = kMaxFrameBytes;
    std::vector<std::byte> out(kMaxFrameBytes), in(kMaxFrameBytes);
    int sent = 0, received = 0;
    Patience wait;
    while (sent < frames || received < frames) {
      wait();
      if (sent < frames && end.send(header, out.data())) ++sent;
      if (received == frames || end.incoming() == nullptr) continue;
      const std::size_t left = end.remaining();
      if (!by_view) {
        end.receive(in.data() + kMaxFrameBytes - left, left);
      } else if (const auto here = end.view(); !here.empty()) {
        std::memcpy(in.data() + kMaxFrameBytes - left, here.data(), here.size());
        end.consume(here.size());
      }
      if (end.remaining() == 0) ++received;
    }
  };
  return double(kMaxFrameBytes) * frames / timed([&] { body(*ends.end[0]); }, [&] { body(*ends.end[1]); });
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const double line = least(line_crossing_ns);
  std::printf("cache line, one way            %8.0f ns\n", line);
  for (const Row& row : registry()) {
    const int trips = row.name == "tcp" ? 200 : 2'000;
    Ends ends = open(row, 256 * 1024);
    const double ns = least([&] { return one_way_ns(ends, trips); });
    const double aim = 1.5 * line + 60;
    std::printf("%-6s 8 B, one way            %8.0f ns   (line x 1.5 + 60: %.0f)\n", row.name.data(), ns, aim);
  }
  std::printf("memcpy, two threads            %8.1f GB/s each\n", most(copy_rate));
  for (const std::size_t piece : {64, 256, 1024}) {
    const double reno = most([&] { return socket_rate(piece * 1024, "reno"); });
    std::printf("socket, reno, %4zu KiB a call   %8.1f GB/s each way\n", piece, reno);
  }
  for (const Row& row : registry()) {
    for (const std::size_t ring : {128, 256, 512, 1024, 2048}) {
      if (ring != 256 && row.name != "shm") continue;
      Ends ends = open(row, ring * 1024);
      for (const bool by_view : {false, true}) {
        const int frames = row.name == "tcp" ? 60 : 100;
        const double rate = most([&] { return duplex_rate(ends, frames, by_view); });
        std::printf("%-6s 1 MiB both ways, ring %4zu KiB, by %s %6.1f GB/s each way\n", row.name.data(), ring,
                    by_view ? "view" : "copy", rate);
      }
    }
  }
  return 0;
}
