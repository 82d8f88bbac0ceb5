// One process of creation.py's measurement; each prints a line of JSON.
#include <anello/anello.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);  // the same for all processes of a machine
  return t.tv_sec * kSecond + t.tv_nsec;
}

[[noreturn]] void leave(const std::string& why) {
  std::fprintf(stderr, "creation_loop: %s\n", why.c_str());
  std::_Exit(1);  // also called from a thread whose peers wait
}

void ok(anello_result_t result, const char* what, anello_comm_t comm = ANELLO_COMM_NULL) {
  if (result != ANELLO_OK) leave(std::string(what) + ": " + anello_last_error(comm));
}

void until(const std::function<bool()>& holds, const char* what) {
  for (const std::int64_t deadline = now() + 120 * kSecond; !holds(); usleep(200)) {
    if (now() > deadline) leave(std::string("120 s were over before ") + what);
  }
}

// Lets ranks start at one moment, when all have started and have loaded everything that they need; in shared zeroed
// memory.
class Gate {
 public:
  void pass(int rank, int size) {
    ++arrived_;
    if (rank == 0) {
      until([&] { return arrived_ == size; }, "all ranks had come");
      go_ = now() + kSecond / 20;  // by then all have polled, and sleep again
    }
    until([&] { return go_ != 0; }, "rank 0 had come");
    const timespec moment{go_ / kSecond, go_ % kSecond};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr) == EINTR) {
    }
  }
  // No rank leaves while others are still being timed.
  void leave_together(int size) {
    ++done_;
    until([&] { return done_ == size; }, "all ranks were done");
  }

 private:
  std::atomic<int> arrived_, done_;
  std::atomic<std::int64_t> go_;
};

void print_span(std::int64_t begin, std::int64_t end) {
  std::printf("{\"begin\": %lld, \"end\": %lld}\n", static_cast<long long>(begin), static_cast<long long>(end));
}

int number_of(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) leave(std::string(variable) + " is not set: start me with anellorun");
  return std::atoi(value);
}

void create(const char* path) {
  const int rank = number_of("RANK"), size = number_of("WORLD_SIZE");
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* const shared = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Gate), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) leave(std::string(path) + ": " + std::strerror(errno));
  Gate& gate = *static_cast<Gate*>(shared);
  gate.pass(rank, size);
  anello_comm_t comm = ANELLO_COMM_NULL;
  const std::int64_t begin = now();
  ok(anello_comm_create(nullptr, &comm), "anello_comm_create");
  print_span(begin, now());
  gate.leave_together(size);
  ok(anello_comm_destroy(comm), "anello_comm_destroy");
}

void threads(int size) {
  static Gate gate;
  anello_unique_id_t id;
  ok(anello_unique_id_create(&id), "anello_unique_id_create");
  std::vector<std::pair<std::int64_t, std::int64_t>> spans(static_cast<std::size_t>(size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      anello_config_t config = ANELLO_CONFIG_INITIALIZER;
      config.rank = rank;
      config.world_size = size;
      config.unique_id = &id;
      gate.pass(rank, size);
      anello_comm_t comm = ANELLO_COMM_NULL;
      const std::int64_t begin = now();
      ok(anello_comm_create(&config, &comm), "anello_comm_create");
      spans[static_cast<std::size_t>(rank)] = {begin, now()};
      gate.leave_together(size);
      ok(anello_comm_destroy(comm), "anello_comm_destroy");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& [begin, end] : spans) print_span(begin, end);
}

void create_all(int size) {
  std::vector<anello_comm_t> comms(static_cast<std::size_t>(size), ANELLO_COMM_NULL);
  const std::int64_t begin = now();
  ok(anello_comm_create_all(size, comms.data()), "anello_comm_create_all");
  print_span(begin, now());
  for (anello_comm_t comm : comms) ok(anello_comm_destroy(comm), "anello_comm_destroy");
}

// KiB of this process: its own memory, the files and shared memory that it has mapped, and its part of the latter, in
// which a page that n processes have mapped counts as 1/n.
struct Memory {
  long own = 0, mapped = 0, part = 0;
};

Memory memory_now() {
  std::array<char, 4096> text{};
  const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (file < 0 || read(file, text.data(), text.size() - 1) <= 0) leave("/proc/self/smaps_rollup cannot be read");
  close(file);
  const auto field = [&](const char* name) {
    const char* const at = std::strstr(text.data(), name);
    if (at == nullptr) leave(std::string("/proc/self/smaps_rollup has no ") + name);
    return std::atol(at + std::strlen(name));
  };
  const long own = field("\nAnonymous:");
  return {own, field("\nRss:") - own, field("\nPss_Shmem:")};
}

void print_growth(const char* when, const Memory& from, const Memory& to, int count) {
  const auto each = [&](long before, long after) { return static_cast<double>(after - before) / count; };
  std::printf("{\"when\": \"%s\", \"own\": %.2f, \"mapped\": %.2f, \"part\": %.2f}\n", when, each(from.own, to.own),
              each(from.mapped, to.mapped), each(from.part, to.part));
}

// Messages of a few bytes, and of the largest size that is still sent at once.
void exchange_with_neighbours(anello_comm_t comm, int rank, int size) {
  static std::vector<float> mine(16 << 10), got(16 << 10);
  std::fill(mine.begin(), mine.end(), static_cast<float>(rank));
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (const std::size_t count : {std::size_t{1}, mine.size()}) {
    for (const auto& [to, from] : {std::pair(right, left), std::pair(left, right)}) {
      ok(anello_sendrecv(mine.data(), count, to, 0, got.data(), count, from, 0, ANELLO_FLOAT32, comm, nullptr),
         "anello_sendrecv", comm);
      if (got[0] != static_cast<float>(from) || got[count - 1] != got[0]) leave("a neighbour's value is wrong");
    }
  }
}

void memory(int count) {
  anello_comm_t world = ANELLO_COMM_NULL;
  int rank = 0, size = 0;
  ok(anello_comm_create(nullptr, &world), "anello_comm_create");
  ok(anello_comm_rank(world, &rank), "anello_comm_rank", world);
  ok(anello_comm_size(world, &size), "anello_comm_size", world);
  std::vector<anello_comm_t> comms(static_cast<std::size_t>(count) + 1, ANELLO_COMM_NULL);
  // The first one loads pages of the library and of the heap that all others reuse.
  ok(anello_comm_dup(world, &comms[0]), "anello_comm_dup", world);
  exchange_with_neighbours(comms[0], rank, size);
  const auto settled = [&] {
    ok(anello_barrier(world), "anello_barrier", world);
    const Memory found = memory_now();
    ok(anello_barrier(world), "anello_barrier", world);  // otherwise a part would depend on which rank is ahead
    return found;
  };
  settled();
  const Memory before = settled();
  for (auto comm = comms.begin() + 1; comm != comms.end(); ++comm)
    ok(anello_comm_dup(world, &*comm), "anello_comm_dup", world);
  const Memory unused = settled();
  for (auto comm = comms.begin() + 1; comm != comms.end(); ++comm) exchange_with_neighbours(*comm, rank, size);
  const Memory used = settled();
  print_growth("before any call", before, unused, count);
  print_growth("after calls with two neighbours", before, used, count);
  for (anello_comm_t comm : comms) ok(anello_comm_destroy(comm), "anello_comm_destroy");
  ok(anello_comm_destroy(world), "anello_comm_destroy");
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double nanoseconds_each(std::size_t calls, const std::function<void()>& call) {
  const std::int64_t begin = now();
  for (std::size_t i = 0; i < calls; ++i) call();
  return static_cast<double>(now() - begin) / static_cast<double>(calls);
}

void alone(int rounds, std::size_t bytes) {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  anello_comm_t comm = ANELLO_COMM_NULL;
  ok(anello_comm_create(&config, &comm), "anello_comm_create");
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> from(count, 3), to(count, 0), copied(count, 0);
  void* (*volatile copy)(void*, const void*, std::size_t) = std::memcpy;  // called, whatever the compiler knows about
                                                                          // it
  const auto copying = [&] { copy(copied.data(), from.data(), bytes); };
  const auto reducing = [&] {
    ok(anello_allreduce(from.data(), to.data(), count, ANELLO_FLOAT32, ANELLO_SUM, comm), "anello_allreduce", comm);
  };
  const auto in_place = [&] {
    ok(anello_allreduce(ANELLO_IN_PLACE, to.data(), count, ANELLO_FLOAT32, ANELLO_SUM, comm), "anello_allreduce", comm);
  };
  const std::size_t calls = std::clamp<std::size_t>((std::size_t{4} << 20) / bytes, 1, 4000);
  constexpr std::size_t kInPlace = 1000;  // for any size, because no data moves
  std::vector<double> copies, reductions, within, ratios;
  for (int round = -1; round < rounds; ++round) {
    double copy_ns = 0, reduce_ns = 0;
    if (round % 2 == 0) copy_ns = nanoseconds_each(calls, copying);
    reduce_ns = nanoseconds_each(calls, reducing);
    if (round % 2 != 0) copy_ns = nanoseconds_each(calls, copying);
    const double in_place_ns = nanoseconds_each(kInPlace, in_place);
    if (round < 0) continue;  // which loaded pages and plans
    copies.push_back(copy_ns);
    reductions.push_back(reduce_ns);
    within.push_back(in_place_ns);
    ratios.push_back(reduce_ns / copy_ns);
  }
  if (to != from || copied != from) leave("a result is wrong");
  std::printf("{\"bytes\": %zu, \"copy_ns\": %.2f, \"allreduce_ns\": %.2f, \"ratio\": %.4f, \"in_place_ns\": %.2f}\n",
              bytes, median(copies), median(reductions), median(ratios), median(within));
  ok(anello_comm_destroy(comm), "anello_comm_destroy");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const auto number = [&](int at) { return std::max(1, std::atoi(argv[at])); };
  if (what == "create" && argc == 3) {
    create(argv[2]);
  } else if (what == "threads" && argc == 3) {
    threads(number(2));
  } else if (what == "create_all" && argc == 3) {
    create_all(number(2));
  } else if (what == "memory" && argc == 3) {
    memory(number(2));
  } else if (what == "alone" && argc == 4) {
    alone(number(2), std::max<std::size_t>(sizeof(float), std::strtoull(argv[3], nullptr, 10)));
  } else {
    std::fprintf(
        stderr,
        "usage: %s create FILE | threads RANKS | create_all RANKS | memory COMMUNICATORS | alone ROUNDS BYTES\n",
        argv[0]);
    return 2;
  }
}
