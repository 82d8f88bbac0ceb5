#include "anellorun/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace anellorun {
namespace {

// Everything that the child needs, made before the fork: nothing allocates between fork and exec.
struct Child {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  pid_t launcher;
  int input;
  int output;
  int errors;
  int secret;
  int ended;
  int messages;
  int report;
  const sigset_t* signals;
  const cpu_set_t* cpus;
};

[[noreturn]] void run(const Child& child) {
  bool ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  if (getppid() != child.launcher) _exit(1);  // the launcher died before the line above took effect
  ready = ready && dup2(child.input, STDIN_FILENO) >= 0;
  ready = ready && dup2(child.output, STDOUT_FILENO) >= 0 && dup2(child.errors, STDERR_FILENO) >= 0;
  for (const int inherited : {child.secret, child.ended, child.messages})
    ready = ready && (inherited < 0 || fcntl(inherited, F_SETFD, 0) == 0);
  ready = ready && (child.cpus == nullptr || sched_setaffinity(0, sizeof *child.cpus, child.cpus) == 0);
  ready = ready && sigprocmask(SIG_SETMASK, child.signals, nullptr) == 0;
  if (ready) execvpe(child.arguments[0], child.arguments.data(), child.environment.data());
  const int code = errno;
  [[maybe_unused]] const ssize_t told = write(child.report, &code, sizeof code);
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string describe_end(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const char* what = sigdescr_np(WTERMSIG(status));
  return "ended with signal " + std::to_string(WTERMSIG(status)) + " (" + (what != nullptr ? what : "unnamed") + ")" +
         (WCOREDUMP(status) ? ", core dumped" : "");
}

Process start(const Share& share, const Job& job, int rank, int input, const sigset_t& signals, const cpu_set_t* cpus,
              const std::string& threads) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Pipe report = make_pipe();
  const Descriptor secret = job.secret() != nullptr ? job.secret()->file() : Descriptor();
  Descriptor messages, launcher;
  if (share.elastic()) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair");
    messages = Descriptor(ends[0]);
    launcher = Descriptor(ends[1]);
    make_nonblocking(messages);
  }
  Descriptor nothing;
  if (input < 0) {
    nothing = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing) fail("open /dev/null");
  }
  std::vector<std::string> arguments = share.program_of(rank).words;
  std::vector<std::string> environment = job.environment(share, rank, secret.get(), launcher.get(), threads);
  const Child child{pointers(arguments), pointers(environment), getpid(),     nothing ? nothing.get() : input,
                    output.to.get(),     errors.to.get(),       secret.get(), job.ended_file(),
                    launcher.get(),      report.to.get(),       &signals,     cpus};

  Process process;
  process.rank = rank;
  process.pid = fork();
  if (process.pid < 0) fail("fork");
  if (process.pid == 0) run(child);

  report.to.close();
  int code = 0;
  ssize_t got;
  do {
    got = read(report.from.get(), &code, sizeof code);  // the end of the file: the program runs
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof code)) {
    waitpid(process.pid, nullptr, 0);
    throw CannotStart{code, arguments.front(), share.host};
  }
  process.pidfd = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!process.pidfd && errno != EPERM && errno != EACCES && errno != ENOSYS) fail("pidfd_open");
  for (const Descriptor* end : {&output.from, &errors.from}) make_nonblocking(*end);
  process.output = std::move(output.from);
  process.errors = std::move(errors.from);
  process.messages = std::move(messages);
  return process;
}

}  // namespace anellorun
