// What ranks find they can do with each other's buffers, step by step down: load and store them, read them by system
// call, or neither. Whatever it is, results are right.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/call_filter.h"
#include "support/catch.h"
#include "support/processors.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace failures;

namespace {

// ---- What stands in the way, made by a rank for itself ----

// Process numbers, mounts with a /dev/shm, and System V memory of its own, as in a container of a pod. Goes on in a
// child, which is process 1 there; this process stays to tell how that ends.
bool move_into_container() {
  if (::unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) != 0) return false;
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
}

// ---- The ranks ----

struct Reached {
  unsigned long long none, read, store;
};

// Memory that its process can load and store, and no system call read: as of a device that is mapped. Null: not to be
// had here.
float* secret_memory(std::size_t bytes) {
  const int descriptor = int(::syscall(SYS_memfd_secret, 0));
  if (descriptor < 0 || ::ftruncate(descriptor, off_t(bytes)) != 0) return nullptr;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  return memory == MAP_FAILED ? nullptr : static_cast<float*>(memory);
}

std::string explained(Rank& me, anello_comm_t comm, anello_kind_t kind, int peer = 0) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  call.dtype = ANELLO_FLOAT32;
  call.count = 1;
  call.peer = peer;
  char json[4096];
  std::size_t length = 0;
  me.check(anello_explain(comm, &call, json, sizeof json, &length), "explain", comm);
  return json;
}

Reached reached(Rank& me, anello_comm_t comm) {
  const std::string text = explained(me, comm, ANELLO_ALLREDUCE);
  const auto number = [&](const char* name) {
    const std::size_t at = text.find(name, text.find("\"reached\"")) + std::string(name).size();
    return std::strtoull(text.c_str() + at, nullptr, 10);
  };
  return {number("\"none\":"), number("\"read\":"), number("\"store\":")};
}

// What joins this rank to another.
std::string transport_to(Rank& me, anello_comm_t comm, int peer) {
  const std::string text = explained(me, comm, ANELLO_SEND, peer), name = "\"transport\":\"";
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return "?";
  return text.substr(at + name.size(), text.find('"', at + name.size()) - at - name.size());
}

// Element i of rank r's input is shift + r + i mod 1009: exact in float32 for every number of ranks here.
void one_call(Rank& me, anello_comm_t comm, anello_kind_t kind, float* in, float* out, std::size_t count,
              std::size_t shift = 0) {
  const auto size = std::size_t(me.size()), rank = std::size_t(me.rank());
  const auto value = [&](std::size_t of, std::size_t i) { return float(shift + of + i % 1009); };
  // count of each rank's part
  const bool parts_in = kind == ANELLO_REDUCE_SCATTER_BLOCK || kind == ANELLO_ALLTOALL;
  const bool parts_out = kind == ANELLO_ALLGATHER || kind == ANELLO_ALLTOALL;
  for (std::size_t i = 0; i < count * (parts_in ? size : 1); ++i) in[i] = value(rank, i);
  if (kind == ANELLO_BROADCAST) {
    me.check(anello_broadcast(in, count, ANELLO_FLOAT32, 1, comm), "broadcast", comm);
    for (std::size_t i = 0; i < count; ++i) {
      if (in[i] == value(1, i)) continue;
      me.check(false, "broadcast of rank 1's, element " + std::to_string(i));
      return;
    }
    return;
  }
  anello_result_t result = ANELLO_OK;
  const char* name = "allreduce";
  switch (kind) {
    case ANELLO_ALLGATHER:
      name = "allgather";
      result = anello_allgather(in, out, count, ANELLO_FLOAT32, comm);
      break;
    case ANELLO_REDUCE_SCATTER_BLOCK:
      name = "reduce_scatter_block";
      result = anello_reduce_scatter_block(in, out, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
      break;
    case ANELLO_ALLTOALL:
      name = "alltoall";
      result = anello_alltoall(in, out, count, ANELLO_FLOAT32, comm);
      break;
    default: result = anello_allreduce(in, out, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
  }
  me.check(result, name, comm);
  for (std::size_t i = 0; i < count * (parts_out ? size : 1); ++i) {
    const std::size_t at = parts_in ? rank * count + i % count : i % count;  // in the inputs
    float expected = parts_out ? value(i / count, at) : 0;
    for (std::size_t r = 0; r < size && !parts_out; ++r) expected += value(r, at);
    if (out[i] == expected) continue;
    me.check(false, std::string(name) + ", element " + std::to_string(i));
    return;
  }
}

constexpr anello_kind_t kKinds[] = {ANELLO_ALLREDUCE, ANELLO_BROADCAST, ANELLO_ALLGATHER, ANELLO_REDUCE_SCATTER_BLOCK,
                                    ANELLO_ALLTOALL};

// Calls with buffers of all kinds: who has mapped memory is a bit mask that every rank takes from the number of the
// round.
const Role reaching("reaching", [](Rank& me) {
  const std::string obstacle = me.setting("obstacle", "none");
  if (obstacle == "filter" && !anello::test::forbid_system_call(SYS_process_vm_readv, EPERM)) return me.say("cannot");
  if (obstacle == "container" && !move_into_container()) return me.say("cannot");
  me.say("can");
  const anello_comm_t comm = me.create();
  const std::size_t count = 300'001;
  std::size_t shift = 0;
  for (int round = 0; round < 1 << me.size(); ++round) {
    const bool mapped = (round >> me.rank() & 1) != 0;
    const std::size_t offset = std::size_t(13 * me.rank() + round);  // elements; others are at others
    const Memory in((count * std::size_t(me.size()) + offset) * sizeof(float), mapped);
    const Memory out((count * std::size_t(me.size()) + offset) * sizeof(float), mapped);
    for (const anello_kind_t kind : kKinds) {
      one_call(me, comm, kind, in.as<float>() + offset, out.as<float>() + offset, count, ++shift);
    }
  }
  const Reached calls = reached(me, comm);
  me.say("reached ", calls.none, " ", calls.read, " ", calls.store);
  me.check(anello_comm_destroy(comm), "destroy");
});

// In whatever container_test.py has put it into.
const Role contained("contained", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::size_t count = 100'001;
  for (const bool mapped : {false, true}) {
    const Memory in(count * std::size_t(me.size()) * sizeof(float), mapped), out(in.bytes(), mapped);
    for (const anello_kind_t kind : kKinds) one_call(me, comm, kind, in.as<float>(), out.as<float>(), count);
  }
  std::string paths;
  for (int peer = 0; peer < me.size(); ++peer) {
    if (peer != me.rank()) paths += transport_to(me, comm, peer) + " ";
  }
  const Reached calls = reached(me, comm);
  me.say("paths ", paths);
  me.say("reached ", calls.none, " ", calls.read, " ", calls.store);
  me.check(anello_comm_destroy(comm), "destroy");
});

// The last rank calls the machine by another name. All are on one processor, so that the others share it under theirs,
// and that one has it to itself.
const Role named("named", [](Rank& me) {
  const std::vector<int> processors = anello::test::allowed_processors();
  me.check(!processors.empty() && anello::test::bind_to(processors[0]), "sched_setaffinity");
  constexpr char kName[] = "another-name";
  const bool last = me.rank() == me.size() - 1;
  if (last && (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(kName, sizeof kName - 1) != 0)) return me.say("cannot");
  me.say("can");
  const anello_comm_t comm = me.create();
  // More than the lines of a board, whichever are in use.
  for (int i = 0; i < 300; ++i) {
    float number = float(i + me.rank());
    me.check(anello_allreduce(ANELLO_IN_PLACE, &number, 1, ANELLO_FLOAT32, ANELLO_SUM, comm), "allreduce", comm);
    if (!me.check(number == float(me.size() * i + me.size() * (me.size() - 1) / 2), "sum " + std::to_string(i))) break;
  }
  me.check(anello_comm_destroy(comm), "destroy");
});

// Memory of many kinds in turn at what may be the same addresses: allocated, freed, registered, given back.
const Role changing("changing", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::size_t shift = 0;  // other numbers in each call: what is left of an earlier one is not right
  const std::size_t count = 200'000, bytes = (count * sizeof(float) + 4095) / 4096 * 4096;
  const auto fresh_at = [&](void* place) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (place == nullptr ? 0 : MAP_FIXED);
    void* const memory = ::mmap(place, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    me.check(memory != MAP_FAILED, "mmap");
    return static_cast<float*>(memory);
  };
  float* const own = fresh_at(nullptr);
  float* const result = fresh_at(nullptr);
  const std::size_t part = count / std::size_t(me.size());
  for (int round = 0; round < 6; ++round) {
    // Not on the same rank in each round.
    const bool registers = (round + me.rank()) % 3 != 0;
    if (registers) {
      me.check(anello_register(own, bytes), "register");
      me.check(anello_register(result, bytes), "register");
    }
    one_call(me, comm, ANELLO_ALLREDUCE, own, result, count, ++shift);
    one_call(me, comm, ANELLO_BROADCAST, own, result, count, ++shift);
    one_call(me, comm, ANELLO_REDUCE_SCATTER_BLOCK, own, result, part, ++shift);
    one_call(me, comm, ANELLO_ALLTOALL, own, result, part, ++shift);
    if (registers) {
      me.check(anello_deregister(own), "deregister");
      me.check(anello_deregister(result), "deregister");
      // Freed, and other memory where it had been.
      fresh_at(own);
      fresh_at(result);
    }
    const Memory in(bytes, true), out(bytes, true);
    one_call(me, comm, ANELLO_ALLREDUCE, in.as<float>(), out.as<float>(), count, ++shift);
    one_call(me, comm, ANELLO_REDUCE_SCATTER_BLOCK, in.as<float>(), out.as<float>(), part, ++shift);
    one_call(me, comm, ANELLO_ALLTOALL, in.as<float>(), out.as<float>(), part, ++shift);
    // On one rank alone, which is another in each round.
    float* const mixed = round % me.size() == me.rank() ? in.as<float>() : own;
    one_call(me, comm, ANELLO_REDUCE_SCATTER_BLOCK, mixed, result, part, ++shift);
    one_call(me, comm, ANELLO_ALLTOALL, mixed, result, part, ++shift);
    one_call(me, comm, ANELLO_ALLREDUCE, own, result, count, ++shift);
  }
  // All at once, so that the last calls are known to go over mapped memory.
  me.check(anello_register(own, bytes), "register");
  me.check(anello_register(result, bytes), "register");
  const auto before = reached(me, comm).store;
  one_call(me, comm, ANELLO_ALLREDUCE, own, result, count, ++shift);
  one_call(me, comm, ANELLO_REDUCE_SCATTER_BLOCK, own, result, part, ++shift);
  one_call(me, comm, ANELLO_ALLTOALL, own, result, part, ++shift);
  me.say("stored ", reached(me, comm).store - before);
  me.check(anello_deregister(own), "deregister");
  me.check(anello_deregister(result), "deregister");
  ::munmap(own, bytes);
  ::munmap(result, bytes);
  me.check(anello_comm_destroy(comm), "destroy");
});

// The same call again and again, with the same buffers, whose memory becomes another in between on some rank.
const Role repeating("repeating", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::size_t shift = 0;
  for (const std::size_t count : {800, 1'500, 20'000}) {
    const std::size_t bytes = (count * 3 * sizeof(float) + 4095) / 4096 * 4096;
    auto* const own = static_cast<float*>(std::aligned_alloc(4096, bytes));
    auto* const result = static_cast<float*>(std::aligned_alloc(4096, bytes));
    const auto change = [&](bool to_mapped) {
      for (float* buffer : {own, result}) {
        me.check((to_mapped ? anello_register(buffer, bytes) : anello_deregister(buffer)) == ANELLO_OK, "change");
      }
    };
    for (const anello_kind_t kind : kKinds) {
      for (const bool mapped : {true, false}) {
        if (mapped) change(true);
        for (int round = 0; round < 6; ++round) {
          for (int again = 0; again < 3; ++again) one_call(me, comm, kind, own, result, count, ++shift);
          // Registered again they are other regions at the same addresses; for two calls they may be none, or be some.
          const bool changes = round % 3 == me.rank();
          if (changes) change(!mapped);
          for (int again = 0; again < round % 2 * 2; ++again) one_call(me, comm, kind, own, result, count, ++shift);
          if (changes) change(mapped);
        }
        if (mapped) change(false);
      }
    }
    std::free(own);
    std::free(result);
  }
  me.check(anello_comm_destroy(comm), "destroy");
});

// Sizes whose staging memory takes turns among few places and those that take others, back to back and in between each
// other. A buffer is the same for several calls, so that what was worked out for the last one's place is used for the
// next one's.
const Role mixing("mixing", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::size_t counts[] = {12'000, 30'000, 3'000, 16'384, 120'000, 24'001, 49'000};
  const std::size_t most = 120'000 * std::size_t(me.size());
  const Memory in(most * sizeof(float), false), out(most * sizeof(float), false);
  std::size_t shift = 0;
  for (std::size_t round = 0; round < 12; ++round) {
    for (std::size_t i = 0; i < std::size(counts); ++i) {
      const std::size_t count = counts[(i * (round % 3 + 1)) % std::size(counts)];
      for (std::size_t again = 0; again <= round % 5; ++again)
        one_call(me, comm, ANELLO_ALLREDUCE, in.as<float>(), out.as<float>(), count, ++shift);
      const anello_kind_t other = kKinds[(i + round) % std::size(kKinds)];
      for (std::size_t again = 0; again <= round % 3; ++again)
        one_call(me, comm, other, in.as<float>(), out.as<float>(), count, ++shift);
    }
  }
  me.say("reached ", reached(me, comm).none);
  me.check(anello_comm_destroy(comm), "destroy");
});

// One rank can open no descriptor any more when staging memory is wanted: all send messages instead, and go on doing
// so.
const Role unstaged("unstaged", [](Rank& me) {
  const anello_comm_t comm = me.create();
  const std::size_t count = 300'001;
  const Memory in(count * sizeof(float), false), out(count * std::size_t(me.size()) * sizeof(float), false);
  one_call(me, comm, ANELLO_ALLREDUCE, in.as<float>(), out.as<float>(), 1);
  rlimit whole{};
  ::getrlimit(RLIMIT_NOFILE, &whole);
  if (me.rank() == 1) {
    const rlimit none{0, whole.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  for (int round = 0; round < 3; ++round) {
    one_call(me, comm, ANELLO_ALLREDUCE, in.as<float>(), out.as<float>(), count);
    one_call(me, comm, ANELLO_ALLGATHER, in.as<float>(), out.as<float>(), count);
    // It stays as it was decided.
    ::setrlimit(RLIMIT_NOFILE, &whole);
  }
  me.check(anello_comm_destroy(comm), "destroy");
});

// Calls over memory that all reach, and messages in it, of ranks that do not wish the same of it.
const Role wishing("wishing", [](Rank& me) {
  ::setenv("ANELLO_STAGING", me.setting("wishes", "").substr(std::size_t(me.rank()), 1) == "a" ? "always" : "never", 1);
  const anello_comm_t comm = me.create();
  const auto count = std::size_t(me.number("count", 5'000));
  const std::size_t bytes = count * std::size_t(me.size()) * sizeof(float);
  const Memory in(bytes, true), out(bytes, true);
  std::size_t shift = 0;
  for (int round = 0; round < 20; ++round) {
    for (const anello_kind_t kind : kKinds) {
      // More ranks than processors broadcast so little by messages.
      if (kind != ANELLO_BROADCAST || me.size() == 2)
        one_call(me, comm, kind, in.as<float>(), out.as<float>(), count, ++shift);
    }
  }
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  const std::size_t most = bytes / sizeof(float);
  for (int round = 0; round < 150; ++round) {
    in.as<float>()[most - 1] = float(round + 1000 * me.rank());
    anello_status_t status;
    me.check(anello_sendrecv(in.as<float>(), most, next, 3, out.as<float>(), most, previous, 3, ANELLO_FLOAT32, comm,
                             &status),
             "sendrecv", comm);
    if (!me.check(out.as<float>()[most - 1] == float(round + 1000 * previous), "message " + std::to_string(round)))
      break;
  }
  const Reached calls = reached(me, comm);
  me.say("reached ", calls.none, " ", calls.read, " ", calls.store);
  me.check(anello_comm_destroy(comm), "destroy");
});

// Calls and messages in memory that lies in no region, and in the second of three parts, on rank 1 alone, in what
// cannot be read.
const Role unregistered("unregistered", [](Rank& me) {
  const std::string obstacle = me.setting("obstacle", "none");
  if (obstacle == "filter" && !anello::test::forbid_system_call(SYS_process_vm_readv, EPERM)) return me.say("cannot");
  if (obstacle == "container" && !move_into_container()) return me.say("cannot");
  const auto count = std::size_t(me.number("count", 0)), all = count * std::size_t(me.size());
  const Memory in(all * sizeof(float), false), out(all * sizeof(float), false);
  float* secret = in.as<float>();
  if (obstacle == "secret" && me.rank() == 1) secret = secret_memory(all * sizeof(float));
  if (secret == nullptr) return me.say("cannot");
  me.say("can");
  const anello_comm_t comm = me.create();
  std::size_t shift = 0;
  for (int round = 0; round < 30; ++round) {
    float* const from = round / 10 == 1 ? secret : in.as<float>();
    for (const anello_kind_t kind : kKinds) one_call(me, comm, kind, from, out.as<float>(), count, ++shift);
  }
  const int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
  for (int round = 0; round < 30; ++round) {
    float* const from = round / 10 == 1 ? secret : in.as<float>();
    from[0] = from[all - 1] = float(round + 1000 * me.rank());
    me.check(anello_sendrecv(from, all, next, 3, out.as<float>(), all, previous, 3, ANELLO_FLOAT32, comm, nullptr),
             "sendrecv", comm);
    const float expected = float(round + 1000 * previous);
    if (!me.check(out.as<float>()[0] == expected && out.as<float>()[all - 1] == expected,
                  "message " + std::to_string(round)))
      break;
  }
  const Reached calls = reached(me, comm);
  const std::string text = explained(me, comm, ANELLO_RECV), name = "\"read\":";
  const std::size_t at = text.find(name, text.find("\"taken\":")) + name.size();
  me.say("reached ", calls.none, " ", calls.read, " ", calls.store, ", took ",
         std::strtoull(text.c_str() + at, nullptr, 10));
  me.check(anello_comm_destroy(comm), "destroy");
});

// What the ranks of such a job say; empty where the obstacle cannot be made here.
std::vector<std::string> unregistered_with(const char* obstacle, const char* staging, int ranks = 2,
                                           int count = 20'000) {
  INFO("obstacle: " << obstacle << ", " << ranks << " ranks");
  Ranks job(ranks, "unregistered", "shm",
            {{"obstacle", obstacle}, {"ANELLO_STAGING", staging}, {"count", std::to_string(count)}});
  for (int rank = 0; rank < ranks; ++rank) {
    if (job.next(rank).text == "cannot") return {};
  }
  std::vector<std::string> said;
  for (int rank = 0; rank < ranks; ++rank) said.push_back(job.expect(rank, "reached").text);
  job.finish();
  return said;
}

constexpr char kAtPeers[] = "allreduce:attach,broadcast:direct,allgather:direct,reduce_scatter:direct,alltoall:direct";

// What every rank says it reached; empty where the obstacle cannot be made here.
std::vector<std::string> reached_with(const char* obstacle, const char* algorithms = kAtPeers) {
  INFO("obstacle: " << obstacle);
  constexpr int ranks = 3;
  Ranks job(ranks, "reaching", "shm", {{"obstacle", obstacle}, {"ANELLO_ALGORITHM", algorithms}});
  std::vector<std::string> said;
  for (int rank = 0; rank < ranks; ++rank) {
    if (job.next(rank).text == "cannot") return {};
  }
  for (int rank = 0; rank < ranks; ++rank) said.push_back(job.expect(rank, "reached").text);
  job.finish();
  return said;
}

}  // namespace

TEST_CASE("mapped on some ranks, read on others, at different offsets: all right, all agreed") {
  const auto said = reached_with("none");
  REQUIRE(said.size() == 3);
  for (const std::string& each : said) CHECK(each == said[0]);
  // 8 rounds of 5 calls, of which one round is mapped everywhere.
  if (said[0] == "reached 35 0 5") {
    WARN("SKIPPED: the kernel does not let processes read each other");
    return;
  }
  CHECK(said[0] == "reached 0 35 5");
}

TEST_CASE("what is not mapped on every rank is staged, by some before they know that, by others after") {
  const auto plain = reached_with("none", "");
  REQUIRE(plain.size() == 3);
  for (const std::string& each : plain) CHECK(each == plain[0]);
  // But for alltoall, whose parts are large enough to be read where the kernel lets them.
  if (plain[0] != "reached 35 0 5") CHECK(plain[0] == "reached 28 7 5");
}

TEST_CASE("where reading is forbidden what is not mapped goes through staging") {
  const auto said = reached_with("filter");
  if (said.empty()) {
    WARN("SKIPPED: this kernel has no filters of system calls");
    return;
  }
  for (const std::string& each : said) CHECK(each == "reached 35 0 5");
}

TEST_CASE("where Yama lets only its parents read a process, what is not mapped goes through staging") {
  int scope = 0;
  if (!(std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope)) {
    WARN("SKIPPED: this kernel has no Yama");
    return;
  }
  if (scope == 0 || ::geteuid() == 0) {
    WARN("SKIPPED: Yama is off here" << (scope == 0 ? "" : " for root"));
    return;
  }
  const auto said = reached_with("none");
  REQUIRE(said.size() == 3);
  for (const std::string& each : said) CHECK(each == "reached 35 0 5");
}

TEST_CASE("in containers with process numbers of their own, memory is mapped all the same, and the rest is staged") {
  const auto said = reached_with("container");
  if (said.empty()) {
    WARN("SKIPPED: needs the right to make namespaces");
    return;
  }
  for (const std::string& each : said) CHECK(each == "reached 35 0 5");
}

TEST_CASE("ranks of one machine that call it by different names share a board all the same") {
  Ranks job(3, "named", "shm");
  for (int rank = 0; rank < 3; ++rank) {
    if (job.next(rank).text == "can") continue;
    WARN("SKIPPED: needs the right to make namespaces");
    return;
  }
  job.finish();
}

TEST_CASE("memory that is registered, given back, freed and allocated anew between calls") {
  for (const char* algorithm : {"attach", "direct"}) {
    Ranks job(3, "changing", "shm", {{"ANELLO_ALGORITHM", algorithm}});
    for (int rank = 0; rank < 3; ++rank) CHECK(job.expect(rank, "stored").text == "stored 3");
    job.finish();
  }
}

TEST_CASE("the same call again, of buffers that become other memory in between on one rank") {
  // By itself the library exchanges, stages, or goes to the peers' memory.
  for (const int ranks : {2, 3}) {
    for (const char* algorithm : {"", "direct"}) {
      Ranks job(ranks, "repeating", "shm", {{"ANELLO_ALGORITHM", algorithm}});
      job.finish();
    }
  }
}

TEST_CASE("mapped memory is staged where any rank wishes it, but for all-reduces") {
  for (const auto& [wishes, expected] : std::vector<std::pair<std::string, std::string>>{{"nn", "reached 0 0 100"},
                                                                                         {"aa", "reached 80 0 20"},
                                                                                         {"na", "reached 80 0 20"},
                                                                                         {"nnn", "reached 0 0 80"},
                                                                                         {"aaa", "reached 60 0 20"},
                                                                                         {"nan", "reached 60 0 20"},
                                                                                         {"ana", "reached 60 0 20"}}) {
    INFO("wishes: " << wishes);
    const int ranks = int(wishes.size());
    Ranks job(ranks, "wishing", "shm", {{"wishes", wishes}});
    for (int rank = 0; rank < ranks; ++rank) CHECK(job.expect(rank, "reached").text == expected);
    job.finish();
  }
}

TEST_CASE("small mapped memory that is rather not read is exchanged over the board where any rank wishes it") {
  // A broadcast goes by messages, for which nobody announces anything, and an all-reduce is read.
  for (const auto& [wishes, expected] : std::vector<std::pair<std::string, std::string>>{
           {"nn", "reached 0 0 80"}, {"aa", "reached 60 0 20"}, {"na", "reached 60 0 20"}}) {
    INFO("wishes: " << wishes);
    Ranks job(2, "wishing", "shm", {{"wishes", wishes}, {"count", "600"}});
    for (int rank = 0; rank < 2; ++rank) CHECK(job.expect(rank, "reached").text == expected);
    job.finish();
  }
}

TEST_CASE("what lies in no region is read by system call, but for what is reduced") {
  const auto said = unregistered_with("none", "never");
  if (said[0] == "reached 150 0 0, took 0") {
    WARN("SKIPPED: the kernel does not let processes read each other");
    return;
  }
  for (const std::string& each : said) CHECK(each == "reached 60 90 0, took 30");
  // Among four only messages are: a rank would make a system call for each of the others.
  for (const std::string& each : unregistered_with("none", "never", 4, 12'000))
    CHECK(each == "reached 150 0 0, took 30");
  for (const std::string& each : unregistered_with("none", "always")) CHECK(each == "reached 150 0 0, took 0");
  // Nor is it read where it is large, which the watch over reading leaves alone.
  for (const std::string& each : unregistered_with("none", "always", 4, 60'000))
    CHECK(each.find(" 0 0, took 0") != std::string::npos);
}

TEST_CASE(
    "what lies in no region is staged and sent where reading is forbidden, or finds another process under that "
    "number") {
  const auto [obstacle, lacking] = GENERATE(table<std::string, std::string>(
      {{"filter", "this kernel has no filters of system calls"}, {"container", "needs the right to make namespaces"}}));
  const auto said = unregistered_with(obstacle.c_str(), "never");
  if (said.empty()) {
    WARN("SKIPPED: " << lacking);
    return;
  }
  for (const std::string& each : said) CHECK(each == "reached 150 0 0, took 0");
}

TEST_CASE(
    "memory that only its own process can read is staged and sent, and what is not such is read before and after") {
  const auto said = unregistered_with("secret", "never");
  if (said.empty()) {
    WARN("SKIPPED: this kernel has no secret memory");
    return;
  }
  CHECK(said[0] == "reached 90 60 0, took 20");
  CHECK(said[1] == "reached 90 60 0, took 30");
}

TEST_CASE("calls of many sizes take their staging memory where no other one has it") {
  const int ranks = GENERATE(2, 4);
  Ranks job(ranks, "mixing", "shm", {{"ANELLO_STAGING", "always"}, {"ANELLO_ALGORITHM", "allreduce:staged"}});
  for (int rank = 0; rank < ranks; ++rank) CHECK(job.expect(rank, "reached").text != "reached 0");
  job.finish();
}

TEST_CASE("where one rank has no staging memory all send messages") {
  Ranks job(3, "unstaged", "shm", {{"ANELLO_ALGORITHM", "staged"}});
  job.finish();
}
