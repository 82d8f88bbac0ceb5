// A small call over a board, or a small message, costs no system call, allocation, lock, or look at the clock. Counted:
// the functions below take the place of the C library's for the whole program, and a filter of system calls stands
// before the kernel.
#include <anello/anello.h>
#include "support/catch.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// Of this thread, while it counts.
struct Counts {
  bool counting = false;
  int allocations = 0, locks = 0, tries = 0, clocks = 0, system_calls = 0;
};
constinit thread_local Counts counts;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void on_system_call(int, siginfo_t*, void*) { ++counts.system_calls; }

// Every system call of this thread but what ends it becomes a signal, from here on.
bool count_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// After 500 of them a thread holds its rank's lock without taking it, where the kernel makes others' stores visible.
constexpr int kWarm = 600;

bool kernel_has_store_barriers() {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

struct Buffers {
  explicit Buffers(bool mapped, std::size_t bytes) {
    for (void*& each : at) {
      if (!mapped) {
        each = std::calloc(1, bytes);
      } else if (anello_mem_alloc(bytes, &each) != ANELLO_OK) {
        std::abort();
      }
    }
  }
  std::array<void*, 4> at{};  // as many as a communicator knows the places of
};

// A rank sends when the other one receives, in turns.
anello_result_t pass(anello_comm_t comm, void* buffer, std::size_t count, int turn) {
  int rank = 0;
  if (anello_comm_rank(comm, &rank) != ANELLO_OK) return ANELLO_ERR_INTERNAL;
  return turn % 2 == rank ? anello_send(buffer, count, ANELLO_FLOAT32, 1 - rank, 0, comm)
                          : anello_recv(buffer, count, ANELLO_FLOAT32, 1 - rank, 0, comm, nullptr);
}

void call(anello_comm_t comm, anello_kind_t kind, const Buffers& buffers, std::size_t count, int turn) {
  // The same buffers twice, then others.
  void* const in = buffers.at[std::size_t(turn / 2) % 2];
  void* const out = buffers.at[2 + std::size_t(turn / 2) % 2];
  const anello_result_t result = kind == ANELLO_ALLREDUCE
                                     ? anello_allreduce(in, out, count, ANELLO_FLOAT32, ANELLO_SUM, comm)
                                 : kind == ANELLO_SEND      ? pass(comm, in, count, turn)
                                 : kind == ANELLO_BROADCAST ? anello_broadcast(in, count, ANELLO_FLOAT32, 0, comm)
                                                            : anello_barrier(comm);
  if (result != ANELLO_OK) ::_exit(3);
}

struct Case {
  anello_kind_t kind;
  std::size_t count;
  bool mapped;
  // More than a board has lines, or than a message's credit lasts.
  int calls() const { return kind == ANELLO_SEND ? 1200 : 300; }
};

// In a process of its own: the filter stays until it ends. Returns what was counted in its calls, as an exit code of 0,
// or of 4 with the counts on stderr.
[[noreturn]] void count_in_child(const Case& each) {
  std::array<anello_comm_t, 2> comms{};
  if (anello_comm_create_all(2, comms.data()) != ANELLO_OK) ::_exit(5);
  const Buffers mine(each.mapped, each.count * 4 + 64), its(each.mapped, each.count * 4 + 64);
  std::thread peer([&] {
    for (int turn = 0; turn < kWarm + each.calls(); ++turn) call(comms[1], each.kind, its, each.count, turn);
    for (;;) ::pause();
  });
  for (int turn = 0; turn < kWarm; ++turn) call(comms[0], each.kind, mine, each.count, turn);
  const int tries_allowed = kernel_has_store_barriers() ? 0 : each.calls();
  if (!count_system_calls()) ::_exit(6);
  counts.counting = true;
  for (int turn = kWarm; turn < kWarm + each.calls(); ++turn) call(comms[0], each.kind, mine, each.count, turn);
  counts.counting = false;
  if (counts.allocations + counts.locks + counts.clocks + counts.system_calls == 0 && counts.tries <= tries_allowed)
    ::_exit(0);
  // What is counted cannot be told any more but by the code: write() is a system call.
  ::_exit(counts.allocations > 0    ? 10
          : counts.locks > 0        ? 11
          : counts.clocks > 0       ? 12
          : counts.system_calls > 0 ? 13
                                    : 14);
}

std::string what(int code) {
  switch (code) {
    case 0: return "nothing";
    case 6: return "no filters";
    case 10: return "an allocation";
    case 11: return "a lock";
    case 12: return "a look at the clock";
    case 13: return "a system call";
    case 14: return "a try for the lock";
    default: return "trouble " + std::to_string(code);
  }
}

}  // namespace

// ---- In the place of the C library's ----

extern "C" {

// What C++ allocates comes to one of these.
void* malloc(std::size_t bytes) {
  static auto* const real = next<void*(std::size_t)>("malloc");
  if (counts.counting) ++counts.allocations;
  return real(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  static auto* const real = next<void*(std::size_t, std::size_t)>("calloc");
  if (counts.counting) ++counts.allocations;
  return real(count, bytes);
}

void* realloc(void* memory, std::size_t bytes) {
  static auto* const real = next<void*(void*, std::size_t)>("realloc");
  if (counts.counting) ++counts.allocations;
  return real(memory, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  static auto* const real = next<void*(std::size_t, std::size_t)>("aligned_alloc");
  if (counts.counting) ++counts.allocations;
  return real(alignment, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  static auto* const real = next<void*(std::size_t, std::size_t)>("memalign");
  if (counts.counting) ++counts.allocations;
  return real(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  static auto* const real = next<int(void**, std::size_t, std::size_t)>("posix_memalign");
  if (counts.counting) ++counts.allocations;
  return real(memory, alignment, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  if (counts.counting) ++counts.locks;
  return real(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  if (counts.counting) ++counts.tries;
  return real(mutex);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  if (counts.counting) ++counts.clocks;
  return real(clock, time);
}

}  // extern "C"

TEST_CASE(
    "a small call over a board, or a small message, makes no system call, allocates nothing, takes no lock, reads no "
    "clock") {
  // Who waits for the other rank does so for as long as it takes.
  ::setenv("ANELLO_SPIN_US", "20000000", 1);
  for (const char* transport : {"inproc", "shm"}) {
    ::setenv("ANELLO_TRANSPORT", transport, 1);
    // Broadcasts of more than a line and up to 4 KiB between processes go through a ring, by the general path.
    for (const Case& each :
         {Case{ANELLO_ALLREDUCE, 2, false}, Case{ANELLO_ALLREDUCE, 256, false}, Case{ANELLO_BARRIER, 0, false},
          Case{ANELLO_BROADCAST, 2, false}, Case{ANELLO_BROADCAST, 2048, true}, Case{ANELLO_ALLREDUCE, 1024, true},
          Case{ANELLO_SEND, 2, false}, Case{ANELLO_SEND, 500, false}}) {
      // Whether mapped memory is far the clock tells, in one call of many, and in each while it looks so, as on a busy
      // machine.
      ::setenv("ANELLO_STAGING", each.mapped ? "never" : "auto", 1);
      const pid_t child = ::fork();
      if (child == 0) count_in_child(each);
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      INFO(transport << ", kind " << each.kind << ", " << each.count << " elements" << (each.mapped ? ", mapped" : ""));
      if (WIFEXITED(status) && WEXITSTATUS(status) == 6) {
        WARN("SKIPPED: this kernel has no filters of system calls");
        return;
      }
      CHECK(what(WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status)) == "nothing");
    }
  }
}
