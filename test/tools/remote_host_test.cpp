// A host whose agent does not do what an agent does, as the launcher meets it behind any remote shell.
#include "anellorun/remote_host.h"
#include "anellorun/agent.h"
#include "support/catch.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <span>

using namespace anellorun;
using namespace std::chrono_literals;

namespace {

struct Heard final : HostEvents {
  void bound(int, const std::string&) override {}
  void threads(int, const ThreadsNote& note) override { said_ranks = note.ranks; }
  void output(int, Stream, std::string_view) override {}
  void ended(int, pid_t, int) override {}
  void gone(int) override {}
  bool full(Stream) const override { return false; }
  bool unread(Stream) const override { return false; }
  void lost(const Share&, const std::string& why) override { lost_because = why; }
  void said(const Share&, std::string_view line) override { last_line = line; }

  std::string lost_because;
  std::string last_line;
  std::optional<int> said_ranks;
};

// The words of a program that writes an agent's greeting and then a frame.
std::vector<std::string> printing(Kind kind, const Writer& body) {
  Pipe pipe = make_pipe();
  Channel channel(std::move(pipe.from), std::move(pipe.to), false);
  channel.send_raw(kPreamble);
  channel.send(Kind::hello, Writer().put(kAgentVersion).put("alpha"));
  channel.send(kind, body);
  channel.write_some();
  std::array<unsigned char, 4096> bytes;
  const ssize_t got = read(channel.from(), bytes.data(), bytes.size());
  REQUIRE(got > 0);
  std::string words;
  for (const unsigned char each : std::span(bytes).first(static_cast<std::size_t>(got))) {
    words += '\\';
    for (const int shift : {6, 3, 0}) words += static_cast<char>('0' + (each >> shift) % 8);
  }
  return {"printf", words};
}

// A remote shell for one rank, and the child's signals.
struct Behind {
  explicit Behind(std::vector<std::string> shell) {
    share.host = "alpha";
    share.world = share.ranks = 1;
    sigset_t before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    host.emplace(std::move(shell), share, heard, before);
  }
  // False: it still runs.
  bool ends() {
    const timespec patience{10, 0};
    while (!host->done()) {
      if (sigtimedwait(&child, nullptr, &patience) < 0 && errno == EAGAIN) return false;
      host->child_ended();
    }
    return true;
  }
  void take() {
    std::vector<pollfd> watched;
    host->watch(watched);
    poll(watched.data(), watched.size(), 10'000);
    host->take(watched.data());
  }

  Share share;
  Heard heard;
  sigset_t child;
  std::optional<RemoteHost> host;
};

}  // namespace

TEST_CASE("processors are not shared out among no ranks") {
  for (const int ranks : {1, 0}) {
    Behind shell(printing(Kind::threads, Writer().put(0).put(ranks).put(4).put(4).put(1)));
    shell.take();
    CHECK(shell.heard.said_ranks == (ranks == 0 ? std::nullopt : std::optional(ranks)));
    CHECK(shell.ends());
    CHECK(shell.heard.lost_because.find("does not speak as") == (ranks == 0 ? 3 : std::string::npos));
  }
}

TEST_CASE("what ends a job ends a shell whose agent has not greeted, though it reads nothing") {
  for (const int number : {SIGTERM, SIGKILL}) {
    Behind shell(
        {"sh", "-c", (number == SIGKILL ? "trap '' TERM; " : "") + std::string("echo ready >&2; exec sleep 100")});
    while (shell.heard.last_line != "ready") shell.take();
    shell.host->signal(SIGUSR1, false);
    CHECK(!shell.host->done());
    shell.host->signal(number, false);
    CHECK(shell.ends());
    CHECK(shell.heard.lost_because == "the job has ended before its ranks could start");
  }
}

TEST_CASE("an agent that never greets is given up, and nothing is due before") {
  Behind shell({"sleep", "100"});
  const auto begin = Clock::now();
  for (auto now = begin; now < begin + kGreeting - 1s; now += 1s) {
    shell.host->keep_deadlines(now);
    REQUIRE(*shell.host->deadline() > now);
  }
  shell.host->keep_deadlines(begin + kGreeting + 1s);
  CHECK(shell.ends());
  CHECK(shell.heard.lost_because == "its agent did not answer within 30 s");
}
