// Jobs of anellorun that fail: what its ranks have to say of it comes out before the end, and nobody waits for who
// cannot come.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace failures;

namespace {

const Role one_is_killed("one_is_killed", [](Rank& me) {
  const anello_comm_t comm = me.create();
  me.check(anello_barrier(comm), "barrier", comm);
  if (me.rank() == me.number("victim", 0)) ::kill(::getpid(), SIGKILL);
  std::vector<float> values(1000, 1);
  me.report("heard", anello_allreduce(ANELLO_IN_PLACE, values.data(), values.size(), ANELLO_FLOAT32, ANELLO_SUM, comm),
            comm);
  ::_exit(0);
});

const Role one_does_not_come("one_does_not_come", [](Rank& me) {
  if (me.rank() == me.number("early", 0)) {
    if (me.number("late", 0) != 0) sleep_ms(300);
    return;
  }
  anello_comm_t comm = ANELLO_COMM_NULL;
  me.report("creation", anello_comm_create(nullptr, &comm), ANELLO_COMM_NULL);
  ::_exit(7);
});

struct Said {
  std::string text;  // on both streams
  int status = -1;
  std::int64_t took_ms = 0;
  std::ptrdiff_t count(const std::string& part) const {
    std::ptrdiff_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }
};

Said launch(const std::string& role, const Settings& settings) {
  const char* const launcher = std::getenv("FAILURE_LAUNCHER");
  if (launcher == nullptr) return {};
  int out[2];
  if (::pipe(out) != 0) throw Trouble("pipe");
  Settings environment{{"ANELLO_JOB", ""}};
  for (const auto& [name, value] : settings)
    environment[name.compare(0, 7, "ANELLO_") == 0 ? name : "SETTING_" + name] = value;
  Said said;
  const std::int64_t begin = now_ns();
  const pid_t pid = start({"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh", launcher, "-np", "3", own_path(), "--role", role},
                          environment, -1, out[1]);
  ::close(out[1]);
  constexpr int kLimitMs = 30'000;
  char bytes[4096];
  for (pollfd waiting{out[0], POLLIN, 0}; ::poll(&waiting, 1, kLimitMs) > 0;) {
    const ssize_t got = ::read(out[0], bytes, sizeof bytes);
    if (got <= 0) break;
    said.text.append(bytes, std::size_t(got));
  }
  ::close(out[0]);
  // At the end the launcher repeats what the rank that failed first has said.
  if (const auto again = said.text.find("anellorun: the first failure"); again != std::string::npos)
    said.text.resize(again);
  said.took_ms = (now_ns() - begin) / 1'000'000;
  if (said.took_ms >= kLimitMs) ::kill(pid, SIGKILL);
  ::waitpid(pid, &said.status, 0);
  return said;
}

}  // namespace

TEST_CASE("under anellorun the survivors of a killed rank hear of it and say so before the job ends") {
  if (std::getenv("FAILURE_LAUNCHER") == nullptr) {
    WARN("SKIPPED: no anellorun in this build");
    return;
  }
  for (const char* transport : {"shm", "tcp"}) {
    for (const int victim : {0, 2}) {
      const Said said = launch("one_is_killed", {{"ANELLO_TRANSPORT", transport}, {"victim", std::to_string(victim)}});
      INFO(transport << ", rank " << victim << " killed:\n" << said.text);
      CHECK(said.count("heard ANELLO_ERR_PEER_LOST") == 2);
      CHECK(said.count("rank " + std::to_string(victim) + " (host") >= 3);  // the launcher names it, too
      const std::size_t ending = said.text.find("ending the other"), heard = said.text.rfind("heard ");
      CHECK((ending == std::string::npos || heard < ending));
      CHECK((WIFEXITED(said.status) && WEXITSTATUS(said.status) == 128 + SIGKILL));
    }
  }
}

TEST_CASE("under anellorun nobody waits for a rank that has ended without coming") {
  if (std::getenv("FAILURE_LAUNCHER") == nullptr) {
    WARN("SKIPPED: no anellorun in this build");
    return;
  }
  for (const char* transport : {"shm", "tcp"}) {
    for (const int early : {0, 1}) {
      for (const int late : {0, 1}) {
        const Said said =
            launch("one_does_not_come",
                   {{"ANELLO_TRANSPORT", transport}, {"early", std::to_string(early)}, {"late", std::to_string(late)}});
        INFO(transport << ", rank " << early << " ends:\n" << said.text);
        CHECK(said.count("creation ANELLO_ERR_RENDEZVOUS") == 2);
        CHECK(said.count("rank " + std::to_string(early) + " has ended") == 2);
        CHECK(said.took_ms < 10'000);
        CHECK((WIFEXITED(said.status) && WEXITSTATUS(said.status) == 7));
      }
    }
  }
}
