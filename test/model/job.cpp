#include "model/job.h"

#include "model/calls.h"
#include "model/generate.h"
#include "model/part.h"
#include "model/pending.h"
#include "model/player.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace anello::model {
namespace {

using Clock = std::chrono::steady_clock;
// Beyond the library's deadline, for a machine that does other things as well.
constexpr int kBeyond_ms = 15'000;
// After the first complaint, for the others'.
constexpr int kForOthers_ms = 150;

// ---- A rank ----

// Below PIPE_BUF: one piece, whatever other ranks write.
void say(const std::string& what) {
  std::string line = what.substr(0, 3500);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

// Lives on until nobody reads any more, so that who has not complained yet is not led astray by this rank's end.
[[noreturn]] void complain(const std::string& what) {
  say("WRONG " + what);
  pollfd reader{STDOUT_FILENO, 0, 0};
  while (::poll(&reader, 1, -1) < 0) {
  }
  ::_exit(1);
}

void play_all(const Job& job, int rank, anello_comm_t world) {
  for (const std::uint64_t seed : job.seeds) {
    Program program = generate(seed, job.ranks);
    job.cut.apply(program);
    try {
      play(program, rank, world, job.timeout_ms);
    } catch (const Wrong& wrong) {
      complain(std::to_string(seed) + " " + wrong.what());
    }
    say("ended " + std::to_string(seed));
  }
}

// ---- Who watches ----

struct Process {
  pid_t pid = -1;
  int out = -1;
  std::size_t ended = 0;  // programs
  std::string heard;
};

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return std::string(" was ended by a signal: ") + strsignal(WTERMSIG(status));
  return " ended with exit code " + std::to_string(WEXITSTATUS(status));
}

class Watch {
 public:
  explicit Watch(const Job& job) : job_(job) {
    static int jobs = 0;
    test::Settings environment = job.settings;
    environment.insert({{"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "29557"},  // on one host the name of an abstract socket, with the job's
                        {"WORLD_SIZE", std::to_string(job.ranks)},
                        {"ANELLO_JOB", "model-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs)},
                        {"ANELLO_TRANSPORT", job.transport},
                        {"ANELLO_TIMEOUT_MS", std::to_string(job.timeout_ms)},
                        {"ANELLO_LOG", "error"}});
    const int processes = job.transport == "inproc" ? 1 : job.ranks;
    for (int rank = 0; rank < processes; ++rank) {
      int out[2];
      if (::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2: " + std::string(std::strerror(errno)));
      environment["RANK"] = std::to_string(rank);
      if (job.transport == "verbs") environment["ANELLO_VERBS_DEVICES"] = rank % 2 == 0 ? "rxe0,siw0" : "rxe1,siw1";
      std::vector<std::string> words{test::own_path(),
                                     "--rank",
                                     std::to_string(rank),
                                     "--ranks",
                                     std::to_string(job.ranks),
                                     "--transport",
                                     job.transport,
                                     "--timeout",
                                     std::to_string(job.timeout_ms)};
      std::string seeds;
      for (const std::uint64_t seed : job.seeds) seeds += (seeds.empty() ? "" : ",") + std::to_string(seed);
      words.insert(words.end(), {"--program", seeds});
      if (!job.bug.empty()) words.insert(words.end(), {"--bug", job.bug});
      const std::vector<std::string> cut = job.cut.arguments();
      words.insert(words.end(), cut.begin(), cut.end());
      processes_.push_back({test::start(words, environment, -1, out[1]), out[0], 0, ""});
      ::close(out[1]);
    }
    per_process_ = job.transport == "inproc" ? std::size_t(job.ranks) : 1;
  }
  ~Watch() {
    for (Process& process : processes_) {
      if (process.pid > 0) {
        ::kill(process.pid, SIGKILL);
        ::waitpid(process.pid, nullptr, 0);
      }
      if (process.out >= 0) ::close(process.out);
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Outcome run() {
    Outcome outcome;
    auto deadline = Clock::now() + std::chrono::milliseconds(job_.timeout_ms + kBeyond_ms);
    while (std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.out >= 0; })) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0 && outcome.failed()) break;
      if (left <= 0) {
        outcome.trouble = "no rank says anything for " + std::to_string((job_.timeout_ms + kBeyond_ms) / 1000) + " s";
        break;
      }
      const bool quiet = !outcome.failed();
      if (!listen(int(left), outcome)) continue;
      if (quiet) {
        deadline =
            Clock::now() + std::chrono::milliseconds(outcome.failed() ? kForOthers_ms : job_.timeout_ms + kBeyond_ms);
      }
    }
    outcome.passed = job_.seeds.size();
    for (const Process& process : processes_) outcome.passed = std::min(outcome.passed, process.ended / per_process_);
    return outcome;
  }

 private:
  // True when somebody has said something, or ended.
  bool listen(int limit_ms, Outcome& outcome) {
    std::vector<pollfd> waiting;
    for (const Process& process : processes_) waiting.push_back({process.out, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), limit_ms) <= 0) return false;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (waiting[i].revents != 0) hear(processes_[i], int(i), outcome);
    }
    return true;
  }
  void hear(Process& process, int rank, Outcome& outcome) {
    char bytes[8192];
    const ssize_t got = ::read(process.out, bytes, sizeof bytes);
    if (got <= 0) {
      ::close(process.out);
      process.out = -1;
      int status = 0;
      ::waitpid(process.pid, &status, 0);
      process.pid = -1;
      if (status != 0) complained("process " + std::to_string(rank) + how_it_ended(status), outcome);
      return;
    }
    process.heard.append(bytes, std::size_t(got));
    for (std::size_t end; (end = process.heard.find('\n')) != std::string::npos; process.heard.erase(0, end + 1)) {
      const std::string line = process.heard.substr(0, end);
      if (line.compare(0, 6, "ended ") == 0) ++process.ended;
      if (line.compare(0, 6, "WRONG ") == 0) complained(line.substr(6), outcome);
    }
  }
  // The first complaint is told; but who only noticed that another had gone gives way.
  void complained(const std::string& what, Outcome& outcome) {
    const auto follows = [](const std::string& text) { return text.find("ANELLO_ERR_PEER_LOST") != std::string::npos; };
    if (outcome.trouble.empty() || (follows(outcome.trouble) && !follows(what))) outcome.trouble = what;
  }

  const Job& job_;
  std::size_t per_process_ = 1;  // ranks
  std::vector<Process> processes_;
};

}  // namespace

Outcome run(const Job& job) { return Watch(job).run(); }

std::string command(const Job& job) {
  std::string text;
  for (const auto& [name, value] : job.settings) text += name + "=" + value + " ";
  text += test::own_path() + " --transport " + job.transport + " --ranks " + std::to_string(job.ranks) + " --program ";
  for (std::size_t i = 0; i < job.seeds.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(job.seeds[i]);
  if (!job.bug.empty()) text += " --bug " + job.bug;
  for (const std::string& word : job.cut.arguments()) text += " " + word;
  return text;
}

int be_rank(const Job& job, int rank) {
  std::vector<anello_comm_t> comms(job.transport == "inproc" ? std::size_t(job.ranks) : 1, ANELLO_COMM_NULL);
  const anello_result_t made = comms.size() > 1 ? anello_comm_create_all(int(comms.size()), comms.data())
                                                : anello_comm_create(nullptr, &comms[0]);
  if (made != ANELLO_OK) complain("creation gives " + said(made, ANELLO_COMM_NULL));
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < comms.size(); ++i) threads.emplace_back([&, i] { play_all(job, int(i), comms[i]); });
  play_all(job, rank, comms[0]);
  for (std::thread& thread : threads) thread.join();
  for (const anello_comm_t comm : comms) {
    if (anello_comm_destroy(comm) != ANELLO_OK) complain("the last destroy fails");
  }
  return 0;
}

}  // namespace anello::model
